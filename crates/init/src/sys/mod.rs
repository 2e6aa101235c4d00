//! The calls that start a program in namespaces of its own: clone, exec, mount attributes, filters of system calls.
//!
//! Code between a clone and an exec makes system calls only: no memory is allocated and no lock is taken, because
//! another thread may hold one.
#![allow(unsafe_code)]

pub mod clone;
pub mod filter;
pub mod landlock;
pub mod mount;
pub mod program;
pub mod refused_packets;
pub mod route;
pub mod syscall_numbers;
