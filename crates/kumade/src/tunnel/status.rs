//! `kumade tunnel status`: what a running end of a tunnel does.

use crate::running::{TUNNEL, print_document, request_status};
use clap::Args;
use kumade_tunnel::status::Status;
use std::process::ExitCode;

/// Show what a running tunnel does: the other ends, what is carried, the order of packets, relayed connections
///
/// Counts are totals from the start to a second ago at most; rates are about the last second.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the tunnel; required where several run [default: the one that runs]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print one JSON document (kumade.tunnel/1)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If no tunnel can be asked, or its answer is not understood.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    print_document(&request_status::<Status>(args.name.as_deref(), &TUNNEL)?, args.json)
}
