//! PathTester's estimate of available bandwidth (Kataoka, Mori: improved tool for one-way delay, available bandwidth and
//! bottleneck capacity, Nanzan University 2007): short trains, and the wait between their packets.
//!
//! The paper, 2.1: a train of "about 10k octets in all, of 1400 octets", its sending rate and its receiving rate; the
//! estimate is "the largest sending rate at which sending rate and receiving rate are nearly the same". What the paper
//! leaves open is decided here: "nearly" is within 5 %, and a rate counts the bits behind the first packet, because the
//! stamps don't span that one's.

mod classic;
mod improved;
mod trains;

pub use classic::{PathTesterClassic, PathTesterClassicConfig};
pub use improved::{PathTester, PathTesterConfig};
