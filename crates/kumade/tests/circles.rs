//! No two files of a crate import each other, directly or through others: each file can be read after those that it
//! uses. A `mod` declaration and a re-export (`pub use`) are no use by themselves; a name that is imported through
//! re-exports counts as an import of the file that defines it. Test modules are left out.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The names that lead to a module from the root of its crate.
type ModulePath = Vec<String>;

/// What one crate's modules declare and use.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    imports: Vec<Import>,
    /// The paths in its code outside `use` items.
    paths: Vec<Vec<String>>,
    /// The identifiers there.
    words: BTreeSet<String>,
}

struct Import {
    /// What it is called here.
    name: String,
    path: Vec<String>,
    public: bool,
}

/// For each file the files that it uses, and by which names.
type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

#[test]
fn no_two_files_import_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = String::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        for root in ["lib.rs", "main.rs"].map(|name| source.join(name)).iter().filter(|root| root.exists()) {
            let read = |path: &Path| fs::read_to_string(path).ok();
            found += &describe(&circles(&Crate::read(root, &read).uses()), &source);
        }
    }
    assert!(found.is_empty(), "these files import each other:\n{found}");
}

#[test]
fn circles_are_found_through_re_exports_aliases_and_inline_paths() {
    let found = |files: &[(&str, &str)]| {
        let read =
            |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
        describe(&circles(&Crate::read(Path::new("lib.rs"), &read).uses()), Path::new(""))
    };
    let lib = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::{B as Bee, inner::C};");
    let leaf = ("a.rs", "pub struct A;");
    assert_eq!(found(&[lib, leaf, ("b.rs", "pub mod inner; use crate::A;"), ("b/inner.rs", "pub struct C;")]), "");
    let circles = [
        ("use crate::Bee; pub struct A;", "pub struct B; fn f(_: super::A) {}"),
        ("fn f() { crate::b::B::new() } pub struct A;", "use crate::a; pub struct B(a::A);"),
        ("fn f() -> Vec<crate::Bee> { vec![] }", "fn f() { println!(\"{}\", crate::a::A); }"),
    ];
    for (a, b) in circles {
        let text = found(&[lib, ("a.rs", a), ("b.rs", b)]);
        assert!(text.contains("a.rs uses b.rs (") && text.contains("b.rs uses a.rs (A)"), "{a} {b}: {text}");
    }
    // What a parent only hands on it does not use; what it works with itself it does.
    let child = ("b/inner.rs", "use super::B; pub struct C;");
    assert_eq!(found(&[lib, leaf, ("b.rs", "mod inner; pub use inner::C; pub struct B;"), child]), "");
    assert_ne!(found(&[lib, leaf, ("b.rs", "mod inner; pub use inner::C; pub struct B(C);"), child]), "");
    // Tests and comments may name whatever they like.
    let tests = "/// See [`crate::Bee`].\npub struct A; #[cfg(test)] mod tests { use crate::Bee; }";
    assert_eq!(found(&[lib, ("a.rs", tests), ("b.rs", "use crate::A; pub struct B;")]), "");
}

impl Crate {
    fn read(root: &Path, text_of: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut this = Crate::default();
        this.read_file(Vec::new(), root, root.parent().unwrap(), text_of);
        this
    }

    /// Adds the module in `file`, whose children's files are in `directory`.
    fn read_file(
        &mut self,
        module: ModulePath,
        file: &Path,
        directory: &Path,
        text_of: &dyn Fn(&Path) -> Option<String>,
    ) {
        let text = text_of(file).unwrap_or_default();
        let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for name in self.read_items(&module, file, tokens) {
            let beside = [format!("{name}.rs"), format!("{name}/mod.rs")].map(|path| directory.join(path));
            let child = beside.iter().find(|path| text_of(path).is_some()).unwrap_or(&beside[0]);
            self.read_file(child_of(&module, &name), child, &directory.join(name), text_of);
        }
    }

    /// Adds the items of a module, and returns which of its modules have files of their own.
    fn read_items(&mut self, module: &ModulePath, file: &Path, tokens: TokenStream) -> Vec<String> {
        let (mut here, mut files) = (Module { file: file.to_owned(), ..Module::default() }, Vec::new());
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let word = tokens[at].to_string();
            at = match (word.as_str(), tokens.get(at + 1), tokens.get(at + 2)) {
                ("#", Some(TokenTree::Group(attribute)), _) if is_for_tests(attribute) => end_of_item(&tokens, at + 2),
                ("mod", Some(TokenTree::Ident(name)), body) => {
                    here.children.insert(name.to_string());
                    match body {
                        Some(TokenTree::Group(body)) => {
                            let child = child_of(module, &name.to_string());
                            files.extend(self.read_items(&child, file, body.stream()));
                        }
                        _ => files.push(name.to_string()),
                    }
                    at + 3
                }
                ("use", _, _) => {
                    let public = is_public(&tokens[..at]);
                    let imports = paths_in(&tokens[at + 1..]);
                    here.imports.extend(imports.into_iter().map(|(name, path)| Import { name, path, public }));
                    end_of_item(&tokens, at)
                }
                _ => {
                    here.read_code(&tokens, at);
                    at + 1
                }
            };
        }
        self.modules.insert(module.clone(), here);
        files
    }

    /// The module that defines what a path in `module` leads to; none for modules, other crates and the language.
    fn owner(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => module.split_last()?.1.to_vec(),
            _ if self.modules[module].children.contains(first) => child_of(module, first),
            _ => return self.imported(module, path, depth).flatten(),
        };
        while let Some((next, after)) = rest.split_first() {
            match next.as_str() {
                "super" => drop(at.pop()),
                _ if self.modules.get(&at)?.children.contains(next) => at.push(next.clone()),
                _ => return self.imported(&at, rest, depth).unwrap_or(Some(at)),
            }
            rest = after;
        }
        None
    }

    /// The same for a path that begins with a name which `module` has imported; nothing where it has not.
    fn imported(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<Option<ModulePath>> {
        let import = self.modules.get(module)?.imports.iter().find(|import| import.name == path[0])?;
        // `use name;` and imports that go round lead to other crates at last.
        let leads_on = depth < 8 && import.path.len() > 1;
        Some(leads_on.then(|| self.owner(module, &[&import.path[..], &path[1..]].concat(), depth + 1)).flatten())
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (path, module) in &self.modules {
            let imported = module.imports.iter().filter(|import| !import.public || module.words.contains(&import.name));
            for used in imported.map(|import| &import.path).chain(&module.paths) {
                let Some(owner) = self.owner(path, used, 0) else { continue };
                let file = &self.modules[&owner].file;
                if *file != module.file {
                    let names = uses.entry(module.file.clone()).or_default().entry(file.clone()).or_default();
                    names.insert(used[1..].iter().find(|name| is_item(name)).or(used.last()).unwrap().clone());
                }
            }
        }
        uses
    }
}

impl Module {
    /// Notes the token at this place, and what stands inside it.
    fn read_code(&mut self, tokens: &[TokenTree], at: usize) {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                (0..inner.len()).for_each(|at| self.read_code(&inner, at));
            }
            TokenTree::Ident(word) => {
                self.words.insert(word.to_string());
                let begins = at < 2 || !(is_colon(&tokens[at - 1]) && is_colon(&tokens[at - 2]));
                let leads = tokens.get(at + 1).is_some_and(is_colon) && tokens.get(at + 2).is_some_and(is_colon);
                if begins && leads {
                    self.paths.extend(paths_in(&tokens[at..]).into_iter().map(|(_, path)| path));
                }
            }
            _ => {}
        }
    }
}

/// The paths in a tree such as `a::{B, c::D as E}` with which the tokens begin, each with the name that it gets.
fn paths_in(tokens: &[TokenTree]) -> Vec<(String, Vec<String>)> {
    let (mut path, mut at) = (Vec::new(), 0);
    let goes_on = |at: usize| at == 0 || is_colon(&tokens[at - 1]);
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                return tokens.get(at + 1).map(|name| (name.to_string(), path)).into_iter().collect();
            }
            TokenTree::Ident(word) if goes_on(at) => path.push(word.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && goes_on(at) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                let tails = inner.split(|token| token.to_string() == ",").flat_map(paths_in);
                return tails.map(|(name, tail)| joined(&path, name, &tail)).collect();
            }
            _ => break,
        }
        at += 1;
    }
    path.last().cloned().map(|name| (name, path)).into_iter().collect()
}

/// A path of a group behind what stands before the group; `self` there is what stands before.
fn joined(prefix: &[String], name: String, tail: &[String]) -> (String, Vec<String>) {
    let itself = tail == ["self"];
    let name = if itself && name == "self" { prefix.last().cloned().unwrap_or_default() } else { name };
    (name, if itself { prefix.to_vec() } else { [prefix, tail].concat() })
}

/// Whether `pub`, perhaps with its reach, stands at the end.
fn is_public(before: &[TokenTree]) -> bool {
    let last = before.iter().rev().find(|token| !matches!(token, TokenTree::Group(_)));
    last.is_some_and(|token| token.to_string() == "pub")
}

fn is_for_tests(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The place after the item that begins here, with its attributes.
fn end_of_item(tokens: &[TokenTree], begin: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        other => other.to_string() == ";",
    };
    let is_use = tokens[begin..].iter().take(4).any(|token| token.to_string() == "use");
    let found =
        tokens[begin..].iter().position(|token| ends(token) && !(is_use && matches!(token, TokenTree::Group(_))));
    found.map_or(tokens.len(), |length| begin + length + 1)
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':')
}

fn child_of(module: &ModulePath, name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// Whether it is no module's name.
fn is_item(name: &str) -> bool {
    name.starts_with(|c: char| c.is_uppercase())
}

/// The groups of files each of which uses all others of its group, directly or through others.
fn circles(uses: &Uses) -> Vec<Uses> {
    let reached = |from: &PathBuf| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            let used = uses.get(file).into_iter().flat_map(BTreeMap::keys);
            next.extend(used.filter(|file| reached.insert((*file).clone())));
        }
        reached
    };
    let all: BTreeMap<_, _> = uses.keys().map(|file| (file, reached(file))).collect();
    let groups: BTreeSet<BTreeSet<&PathBuf>> = all
        .iter()
        .filter(|(file, reached)| reached.contains(**file))
        .map(|(file, reached)| {
            reached.iter().filter(|other| all.get(other).is_some_and(|r| r.contains(*file))).collect()
        })
        .collect();
    let within = |group: &BTreeSet<&PathBuf>, file: &PathBuf| {
        let used = uses[file].iter().filter(|(used, _)| group.contains(used));
        (file.clone(), used.map(|(used, names)| (used.clone(), names.clone())).collect())
    };
    groups.iter().map(|group| group.iter().map(|file| within(group, file)).collect()).collect()
}

fn describe(circles: &[Uses], source: &Path) -> String {
    let mut text = String::new();
    let short =
        |file: &Path| file.strip_prefix(source.parent().unwrap_or(source)).unwrap_or(file).display().to_string();
    let package = source.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    for circle in circles {
        text += &format!("{package}, {} files:\n", circle.len());
        for (file, used) in circle {
            for (other, names) in used {
                let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                text += &format!("  {} uses {} ({names})\n", short(file), short(other));
            }
        }
    }
    text
}
