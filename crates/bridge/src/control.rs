//! The local socket over which a running bridge is asked and changed.
