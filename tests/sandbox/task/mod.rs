//! File tasks: manifests and leases in, signed results out, by the program as a host starts it.

mod attacks;
mod batches;
mod bounds;
mod copies;
mod crash;
mod disks;
mod homes;
mod host;
mod issuers;
mod long_files;
mod reasons;
mod rules;
mod schemas;
mod streams;
