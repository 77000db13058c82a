//! All tests of the built crate in one program, which runs them beside each other.

mod any_record;
mod one_way_delay;
