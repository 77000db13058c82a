//! Sites that are joined by several paths, or by a tunnel over TCP: pace, choice, order and what connections get of it. One
//! program, so that the long tables are made side by side.

mod bonded;
mod bonded_auto;
mod bonded_competition;
mod bonded_flaps;
mod bonded_paths;
mod bonded_redundant;
mod bonded_shards;
mod bonded_sparse;
mod bonded_tcp;
mod tunnels;
