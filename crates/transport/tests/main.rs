//! All tests of the built crate in one program, which runs them beside each other, but for those that set a clock which all of a process
//! read.

mod transports;
