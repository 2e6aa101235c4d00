//! Real programs in a home: what is meant to run ([`policy`]), and in what surroundings it runs ([`sandbox`]).

pub mod policy;
pub mod sandbox;
