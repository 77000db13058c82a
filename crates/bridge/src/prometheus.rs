//! Statistics in Prometheus' text format.
