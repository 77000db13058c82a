//! All tests of the built crate in one program, which runs them beside each other.

mod checks;
mod corpus;
mod delay;
mod experiments;
mod firewalls;
mod leftovers;
mod multipath;
mod nat_session;
mod path_treatment;
mod published_programs;
mod tunnel_studies;
