//! Parses the parts of a Rust file that the rules need: its modules, imports, paths, items and functions.
//!
//! The file is read as tokens, so paths within macros are included. Items under `#[cfg(test)]` are skipped.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

const ITEMS: [&str; 7] = [
    "struct", "enum", "union", "trait", "type", "const", "static",
];

#[derive(Debug, Default)]
pub(super) struct RustFile {
    pub(super) functions: Vec<Function>,
    /// Modules that the file declares and that have a file of their own.
    pub(super) modules: Vec<String>,
    pub(super) imports: Vec<Import>,
    /// Qualified paths outside `use`.
    pub(super) paths: Vec<ItemPath>,
    /// Names of the file's items, inline modules included.
    pub(super) items: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemPath {
    /// The inline modules that contain the path.
    pub(super) within: Vec<String>,
    pub(super) segments: Vec<String>,
}

/// One name of a `use` declaration; `*` for all names.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) name: String,
    pub(super) path: ItemPath,
    /// Whether it is a `pub use`, of any visibility.
    pub(super) is_reexport: bool,
}

impl RustFile {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow!("not valid Rust: {error}"))?;
        let mut file = Self::default();
        file.read(tokens, &mut Vec::new());
        Ok(file)
    }

    fn read(&mut self, tokens: TokenStream, within: &mut Vec<String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_test_attribute(&tokens[at..]) {
                at = after_item(&tokens, at);
                continue;
            }
            if is_separator(&tokens[at..]) {
                // The `::name` belongs to another crate or to a type.
                at += 3;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => self.read(group.stream(), within),
                TokenTree::Ident(ident) => {
                    at = self.identifier(&ident.to_string(), &tokens, at, within);
                    continue;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }

    /// Parses the item that starts with this identifier. Returns the index of the token after it.
    fn identifier(
        &mut self,
        word: &str,
        tokens: &[TokenTree],
        at: usize,
        within: &mut Vec<String>,
    ) -> usize {
        match (word, name(tokens.get(at + 1))) {
            ("use", _) => {
                let end = tokens[at..]
                    .iter()
                    .position(is_semicolon)
                    .map_or(tokens.len(), |length| at + length);
                let is_reexport = is_public(&tokens[..at]);
                self.import(&tokens[at + 1..end], &[], within, is_reexport);
                return end + 1;
            }
            ("mod", Some(module)) => match tokens.get(at + 2) {
                Some(TokenTree::Group(body)) => {
                    self.items.insert(module.clone());
                    within.push(module);
                    self.read(body.stream(), within);
                    within.pop();
                    return at + 3;
                }
                _ => {
                    self.modules.push(module);
                    return at + 2;
                }
            },
            ("fn", Some(name)) => {
                self.function(&name, &tokens[at..]);
                self.items.insert(name);
                return at + 2;
            }
            ("macro_rules", _) => self.items.extend(name(tokens.get(at + 2))),
            (item, Some(name)) if ITEMS.contains(&item) => {
                self.items.insert(name);
            }
            _ => {}
        }
        let mut segments = vec![word.to_owned()];
        let mut end = at + 1;
        while is_separator(&tokens[end..])
            && let Some(segment) = name(tokens.get(end + 2))
        {
            segments.push(segment);
            end += 3;
        }
        if segments.len() > 1 {
            let within = within.clone();
            self.paths.push(ItemPath { within, segments });
        }
        end
    }

    fn import(&mut self, tree: &[TokenTree], before: &[String], within: &[String], public: bool) {
        let comma = |token: &TokenTree| is_punct(token, ',');
        for branch in tree.split(comma).filter(|branch| !branch.is_empty()) {
            let mut path = before.to_vec();
            let mut alias = None;
            for (index, token) in branch.iter().enumerate() {
                match token {
                    TokenTree::Ident(ident) if *ident == "as" => {
                        alias = name(branch.get(index + 1));
                        break;
                    }
                    TokenTree::Ident(ident) => path.push(ident.to_string()),
                    TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
                    TokenTree::Group(group) => {
                        let tree: Vec<TokenTree> = group.stream().into_iter().collect();
                        self.import(&tree, &path, within, public);
                        path.clear();
                    }
                    TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                }
            }
            // `use a::{self}` imports a.
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            if let Some(last) = path.last().cloned() {
                self.imports.push(Import {
                    name: alias.unwrap_or(last),
                    path: ItemPath {
                        within: within.to_vec(),
                        segments: path,
                    },
                    is_reexport: public,
                });
            }
        }
    }

    fn function(&mut self, name: &str, tokens: &[TokenTree]) {
        let body = tokens
            .iter()
            .take_while(|token| !is_semicolon(token))
            .find_map(|token| match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
                _ => None,
            });
        if let Some(body) = body {
            let line = tokens[0].span().start().line;
            self.functions.push(Function {
                name: name.to_owned(),
                line,
                lines: body.span_close().end().line + 1 - line,
            });
        }
    }
}

fn name(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_semicolon(token: &TokenTree) -> bool {
    is_punct(token, ';')
}

fn is_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [one, two, ..] if is_punct(one, ':') && is_punct(two, ':'))
}

/// Whether these tokens end with `pub` or `pub(...)`.
fn is_public(before: &[TokenTree]) -> bool {
    let is_pub = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if *ident == "pub");
    match before {
        [.., last] if is_pub(last) => true,
        [.., word, TokenTree::Group(_)] => is_pub(word),
        _ => false,
    }
}

fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [hash, TokenTree::Group(group), ..]
        if is_punct(hash, '#') && group.stream().to_string().replace(' ', "") == "cfg(test)")
}

/// The index after the item with the attributes that start here.
fn after_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| {
        is_semicolon(token)
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    tokens[at..]
        .iter()
        .position(ends)
        .map_or(tokens.len(), |length| at + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_paths_and_functions() {
        let file = RustFile::parse(
            "pub(crate) use self::a::{B, c::{self, D as E}};\nuse super::*;\nmod a;\n\
             #[cfg(test)]\nmod tests;\nmod inner {\n    fn f() {\n        super::g::<crate::h::I>();\n    }\n}\n\
             #[cfg(test)]\nfn only() {\n    crate::test::only();\n}\n\
             fn k() { println!(\"{}\", c::l()); <A as B>::m(); ::std::n(); }\n",
        )
        .unwrap();
        let imports: Vec<_> = file
            .imports
            .iter()
            .map(|one| {
                let path = one.path.segments.join("::");
                (one.name.as_str(), path, one.is_reexport)
            })
            .collect();
        let expected = [
            ("B", "self::a::B", true),
            ("c", "self::a::c", true),
            ("E", "self::a::c::D", true),
            ("*", "super::*", false),
        ];
        assert_eq!(imports, expected.map(|(a, b, c)| (a, b.to_owned(), c)));
        assert_eq!(file.modules, ["a"]);
        let paths: Vec<_> = file
            .paths
            .iter()
            .map(|path| (path.within.join("::"), path.segments.join("::")))
            .collect();
        let expected = [
            ("inner", "super::g"),
            ("inner", "crate::h::I"),
            ("", "c::l"),
        ];
        let expected = expected.map(|(within, path)| (within.to_owned(), path.to_owned()));
        assert_eq!(paths, expected);
        let functions: Vec<_> = file
            .functions
            .iter()
            .map(|function| (function.name.as_str(), function.line, function.lines))
            .collect();
        assert_eq!(functions, [("f", 7, 3), ("k", 15, 1)]);
    }
}
