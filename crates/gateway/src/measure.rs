//! Measurements of the paths, by which a gateway finds out in which ratio to divide packets.
//!
//! A [`PathMeasurer`] measures one path at a time on a thread of its own, by the same library as `kumade measure`, when a
//! [`MeasuredPaths`](kumade_multipath::measured::MeasuredPaths) says so; the far end answers with a [`MeasurementServer`], or is any
//! `kumade serve`. In the direct plane, packets of a measurement carry the path's firewall mark and take its routes; in the
//! bonded plane they are bound to the path's interface, as its datagrams are.
//!
//! In the direct plane the weights are set to what is found ([`PathMeasurer::update_direct_weights`]). The bonded plane finds out by
//! its traffic what a path carries; it is told what was measured of paths that carry little ([`PathMeasurer::update_bonded_rates`]).

mod apply;
mod load;
mod measurer;
mod path_measurement;
mod server;

pub use measurer::{MeasuredPathStatus, PathMeasurer};
pub use server::{MeasurementServer, MeasurementServerError};
