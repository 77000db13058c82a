//! The settings of a bridge as a user writes them.
