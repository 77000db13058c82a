//! Compiles the congestion controllers of `bpf/` for the kernel's virtual machine, with feature `bpf` only.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

const CONTROLLERS: [&str; 5] = ["bic", "compound", "dctcp", "prague", "vegas"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_BPF").is_some() {
        CONTROLLERS.iter().for_each(|name| compile(name));
    }
}

fn compile(name: &str) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let source = format!("bpf/{name}.bpf.c");
    let object = directory("OUT_DIR").join(format!("{name}.bpf.o"));
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-fno-stack-protector", "-Wall"])
        .arg("-I")
        .arg(directory("DEP_BPF_INCLUDE"))
        .args(["-c", &source, "-o"])
        .arg(&object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{clang} cannot compile {source} ({status})")),
        Err(error) => fail(&format!(
            "feature `bpf` takes clang, but `{clang}` does not start: {error}; install it (Debian: apt install clang), \
             name it in the variable CLANG, or build without the feature"
        )),
    }
}

fn directory(variable: &str) -> PathBuf {
    let value = env::var_os(variable).unwrap_or_else(|| fail(&format!("cargo does not set {variable}")));
    Path::new(&value).to_owned()
}

fn fail(reason: &str) -> ! {
    println!("cargo::error={reason}");
    exit(1)
}
