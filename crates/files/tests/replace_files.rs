//! Files are replaced whole or not at all, whatever is in their place and however full the disk is.

use kumade_files::{check_writable, replace_files};
use kumade_netns_testbed::in_namespaces;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// An empty directory, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kumade-replace-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_are_created_and_replaced_and_nothing_else_is_left() {
    let scratch = Scratch::new("plain");
    let directory = scratch.0.join("a/b");
    check_writable(&directory).unwrap();
    assert!(names(&directory).is_empty());
    for text in ["first", "second, longer", "3"] {
        let paths = replace_files(&directory, &[("x", text.as_bytes()), ("y", b"other")]).unwrap();
        assert_eq!(paths, [directory.join("x"), directory.join("y")]);
        assert_eq!(fs::read_to_string(directory.join("x")).unwrap(), text);
        assert_eq!(names(&directory), ["x", "y"]);
    }
}

#[test]
fn a_link_is_replaced_and_what_it_points_to_is_untouched() {
    let scratch = Scratch::new("links");
    let target = scratch.0.join("target");
    fs::write(&target, "precious").unwrap();
    // By the name of a file, and by those that were once used for new files.
    for name in ["x".to_owned(), format!(".kumade-{}", std::process::id())] {
        symlink(&target, scratch.0.join(name)).unwrap();
    }
    check_writable(&scratch.0).unwrap();
    replace_files(&scratch.0, &[("x", b"new")]).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(fs::symlink_metadata(scratch.0.join("x")).unwrap().is_file());
    assert_eq!(fs::read_to_string(scratch.0.join("x")).unwrap(), "new");
}

#[test]
fn what_can_not_be_replaced_leaves_all_as_it_was() {
    let scratch = Scratch::new("directory");
    fs::write(scratch.0.join("x"), "old").unwrap();
    fs::create_dir(scratch.0.join("y")).unwrap();
    let error = replace_files(&scratch.0, &[("x", b"new"), ("y", b"new")]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("/y: is a directory") && text.contains("unchanged"), "{text}");
    assert_eq!(fs::read_to_string(scratch.0.join("x")).unwrap(), "old");
    assert_eq!(names(&scratch.0), ["x", "y"]);
}

/// Mounts a file system of `kilobytes` there, seen by this thread alone.
fn mount_small(directory: &Path, kilobytes: u32) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
    let size = format!("size={kilobytes}k");
    mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
}

#[test]
fn a_full_disk_leaves_the_earlier_files_whole_and_says_so() {
    in_namespaces("a_full_disk_leaves_the_earlier_files_whole_and_says_so", || {
        let scratch = Scratch::new("full");
        let directory = scratch.0.clone();
        let in_mounts = move || {
            mount_small(&directory, 64);
            let old = "x".repeat(20_000);
            replace_files(&directory, &[("a", old.as_bytes()), ("b", b"old")]).unwrap();
            // The first fits, the second does not.
            let new = "y".repeat(45_000);
            let error = replace_files(&directory, &[("b", b"new"), ("a", new.as_bytes())]).unwrap_err();
            assert_eq!(error.cause.raw_os_error(), Some(nix::libc::ENOSPC));
            let text = error.to_string();
            assert!(text.contains("/a: No space left on device") && text.contains("unchanged"), "{text}");
            assert_eq!(fs::read_to_string(directory.join("a")).unwrap(), old);
            assert_eq!(fs::read_to_string(directory.join("b")).unwrap(), "old");
            assert_eq!(names(&directory), ["a", "b"]);
        };
        std::thread::spawn(in_mounts).join().unwrap();
    });
}
