//! Settings that change at given times.
