//! The program `kumade`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kumade::main()
}
