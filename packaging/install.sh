#!/bin/sh
# Installs kumade from the archives of a release, or removes it again. Nothing else of the system is changed.
#   sh install.sh [--url URL] [--prefix DIRECTORY]
#   sh install.sh --uninstall [--prefix DIRECTORY]
# URL has the archives and SHA256SUMS. Without --prefix, root installs to /usr/local, and others install to ~/.local.
set -eu

# packaging/release writes the address of the release here.
default_url=''

say() { printf '%s\n' "$*"; }
fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

usage() {
  say 'usage: sh install.sh [--url URL] [--prefix DIRECTORY] [--uninstall]'
  exit "$1"
}

# As releases call it.
architecture() {
  [ "$(uname -s)" = Linux ] || fail "kumade runs on Linux only, and this is $(uname -s)"
  case $(uname -m) in
    x86_64 | amd64) say x86_64 ;;
    aarch64 | arm64) say aarch64 ;;
    *) fail "there is no program for $(uname -m), only for x86_64 and aarch64; with Rust, build it from source: docs/installing.md" ;;
  esac
}

# Writes what is at an address to a file.
download() {
  if command -v curl > /dev/null; then
    curl --fail --silent --show-error --location --output "$2" "$1"
  elif command -v wget > /dev/null; then
    wget -q -O "$2" "$1"
  else
    fail 'neither curl nor wget is here: install one of them'
  fi || fail "cannot download $1: check the address and the network, then try again; nothing was changed"
}

# The line of SHA256SUMS for this architecture: the sum and the name of the archive.
find_archive() {
  line=$(grep -- "-$2-linux\.tar\.gz\$" "$1") || fail "$url/SHA256SUMS names no archive for $2"
  # An address of one release has one of each.
  [ "$(say "$line" | wc -l)" = 1 ] || fail "$url/SHA256SUMS names several archives for $2"
  say "$line"
}

# Copies a file beside its place and renames it, so that a running program or an interruption does no harm.
put() {
  mkdir -p "$(dirname "$3")"
  cp "$2" "$3.new"
  chmod "$1" "$3.new"
  mv -f "$3.new" "$3"
}

# Files other than the program, below the prefix.
bash_completion=share/bash-completion/completions/kumade
zsh_completion=share/zsh/site-functions/_kumade
fish_completion=share/fish/vendor_completions.d/kumade.fish

install_release() {
  [ -n "$url" ] || fail 'say where the release is: --url URL'
  machine=$(architecture)
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  download "$url/SHA256SUMS" "$scratch/SHA256SUMS"
  line=$(find_archive "$scratch/SHA256SUMS" "$machine")
  archive=${line##* }
  archive=${archive#\*}
  download "$url/$archive" "$scratch/$archive"
  sum=$(sha256sum "$scratch/$archive")
  [ "${sum%% *}" = "${line%% *}" ] ||
    fail "$archive is not what SHA256SUMS says (${sum%% *}, not ${line%% *}): the download was cut short or changed; nothing was changed"

  tar -xzf "$scratch/$archive" -C "$scratch"
  files=$scratch/${archive%.tar.gz}
  version=$("$files/kumade" --version) || fail 'the program of the release does not run here; nothing was changed'
  mkdir -p "$prefix/bin" && [ -w "$prefix/bin" ] || fail "cannot write to $prefix/bin: choose another place with --prefix DIRECTORY"

  for page in "$files"/man/*.1.gz; do put 644 "$page" "$prefix/share/man/man1/${page##*/}"; done
  put 644 "$files/completions/kumade.bash" "$prefix/$bash_completion"
  put 644 "$files/completions/kumade.zsh" "$prefix/$zsh_completion"
  put 644 "$files/completions/kumade.fish" "$prefix/$fish_completion"
  put 755 "$files/kumade" "$prefix/bin/kumade"

  say "$version is installed: $prefix/bin/kumade"
  say "manual pages and completions are in $prefix/share; \"sh install.sh --uninstall\" with the same --prefix removes all of it"
  case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) say "$prefix/bin is not in your PATH. Add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
}

uninstall() {
  [ -e "$prefix/bin/kumade" ] || fail "there is no $prefix/bin/kumade: say with --prefix where it was installed"
  rm -f "$prefix/bin/kumade" "$prefix/share/man/man1/kumade.1.gz" "$prefix"/share/man/man1/kumade-*.1.gz \
    "$prefix/$bash_completion" "$prefix/$zsh_completion" "$prefix/$fish_completion" ||
    fail "cannot remove all files from $prefix: run it as the user who installed them"
  say "kumade is removed from $prefix; what runs goes on until it ends, and files in /etc/kumade are left"
}

# Run by the last line, so that a script that arrives in part does nothing.
main() {
  url=$default_url
  action=install_release
  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
  while [ $# -gt 0 ]; do
    case $1 in
      --url) url=${2:?--url takes an address} && shift ;;
      --prefix) prefix=${2:?--prefix takes a directory} && shift ;;
      --uninstall) action=uninstall ;;
      --help | -h) usage 0 ;;
      *) usage 2 >&2 ;;
    esac
    shift
  done
  url=${url%/}
  "$action"
}

main "$@"
