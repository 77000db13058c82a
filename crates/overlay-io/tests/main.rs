//! All tests of the built crate in one program, which runs them beside each other.

mod captures;
mod connections;
mod either;
mod policer;
