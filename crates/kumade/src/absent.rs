//! The commands that this system does not have.

use crate::usage::usage_error;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum AbsentCommand {
    /// On Linux only: answer measurements
    Serve(AbsentArgs),
    /// On Linux only: emulate a link
    Link(AbsentArgs),
    /// On Linux only: share traffic over several paths
    Gateway(AbsentArgs),
    /// On Linux only: carry IP over TCP or UDP between two hosts
    Tunnel(AbsentArgs),
    /// On Linux only: measure paths for years
    Monitor(AbsentArgs),
}

#[derive(Debug, Args)]
pub struct AbsentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Says that there is no such command here.
pub fn refuse(command: &AbsentCommand) -> ExitCode {
    let name = match command {
        AbsentCommand::Serve(_) => "serve",
        AbsentCommand::Link(_) => "link",
        AbsentCommand::Gateway(_) => "gateway",
        AbsentCommand::Tunnel(_) => "tunnel",
        AbsentCommand::Monitor(_) => "monitor",
    };
    refuse_named(name)
}

/// Says so of a command by this name.
pub fn refuse_named(name: &str) -> ExitCode {
    usage_error(&format!("`kumade {name}` takes Linux: this system has measure, lab run --virtual, and key"))
}
