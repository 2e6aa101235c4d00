//! Real programs in a home: what may run, and in what surroundings it runs.

pub mod sandbox;
