//! Monitors paths for years: light probes all day, full measurements on a schedule, an archive, a page.
#![forbid(unsafe_code)]

pub mod config;
pub mod light;
