//! Reads the names in a source text: its `use` trees, and each path of two or more segments.
//!
//! The reader works on tokens instead of a syntax tree, so that it also finds paths in calls and definitions of macros.
//! It skips comments and documentation.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A path as written, with `::x` as `["", "x"]`.
#[derive(Clone, Debug)]
pub struct Written {
    /// The module with the path, from the crate's root.
    pub module: Vec<String>,
    pub path: Vec<String>,
    pub line: usize,
}

/// One leaf of a `use` tree.
#[derive(Clone, Debug)]
pub struct Import {
    pub written: Written,
    /// The imported name; `*` for all names of the path.
    pub name: String,
    /// Whether the import is visible outside of its module.
    pub public: bool,
}

#[derive(Debug, Default)]
pub struct Source {
    pub imports: Vec<Import>,
    /// Paths that are not imports.
    pub paths: Vec<Written>,
    /// Inline and declared modules, each by its full path.
    pub modules: Vec<Vec<String>>,
    /// The name and the line of each function.
    pub functions: Vec<(String, usize)>,
    /// The lines with `async` or `await`.
    pub asynchronous: Vec<usize>,
}

impl Source {
    /// Reads the text of the module `module`.
    pub fn read(module: &[String], text: &str) -> Self {
        let tokens = TokenStream::from_str(text).unwrap();
        let mut source = Self::default();
        source.scan(&tokens.into_iter().collect::<Vec<_>>(), module);
        source
    }

    fn scan(&mut self, tokens: &[TokenTree], module: &[String]) {
        let mut at = 0;
        while at < tokens.len() {
            at = match &tokens[at] {
                TokenTree::Group(group) => {
                    self.scan(&group.stream().into_iter().collect::<Vec<_>>(), module);
                    at + 1
                }
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    self.attribute(tokens, at, module)
                }
                TokenTree::Ident(_) => self.word(tokens, at, module),
                TokenTree::Punct(_) | TokenTree::Literal(_) => at + 1,
            };
        }
    }

    /// Reads the syntax that starts with a word. Returns the index of the next token.
    fn word(&mut self, tokens: &[TokenTree], at: usize, module: &[String]) -> usize {
        let word = name_of(&tokens[at]).unwrap();
        let line = line_of(&tokens[at]);
        match word.as_str() {
            // The `use` of `impl Trait + use<'a>` is not an import.
            "use" if !tokens.get(at + 1).is_some_and(|next| is(next, '<')) => {
                let end = (at..tokens.len())
                    .find(|&end| is(&tokens[end], ';'))
                    .unwrap_or(tokens.len());
                let public = is_public(&tokens[..at]);
                self.tree(&tokens[at + 1..end], &[], module, public);
                end
            }
            "mod" => {
                let Some(name) = tokens.get(at + 1).and_then(name_of) else {
                    return at + 1;
                };
                let inner = [module, &[name]].concat();
                self.modules.push(inner.clone());
                if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                    self.scan(&body.stream().into_iter().collect::<Vec<_>>(), &inner);
                    return at + 3;
                }
                at + 2
            }
            "fn" => {
                if let Some(name) = tokens.get(at + 1).and_then(name_of) {
                    self.functions.push((name, line));
                }
                at + 1
            }
            // `extern crate self as other` gives the crate another name.
            "extern" if tokens.get(at + 2).and_then(name_of).as_deref() == Some("self") => {
                self.path(module, vec!["crate".into()], line);
                at + 3
            }
            "async" | "await" => {
                self.asynchronous.push(line);
                at + 1
            }
            word if KEYWORDS.contains(&word) => at + 1,
            _ => {
                let (path, end) = path_at(tokens, at);
                let after_colons = at >= 2 && colons(tokens, at - 2);
                // In `<T as Trait>::name` and `Vec::<T>::new`, the word begins the rest of a path that was read
                // already.
                let rest = after_colons && at >= 3 && is(&tokens[at - 3], '>');
                if after_colons && !rest {
                    self.path(module, [vec![String::new()], path].concat(), line);
                } else if !rest && path.len() > 1 {
                    self.path(module, path, line);
                }
                end
            }
        }
    }

    /// Reads a `use` tree; `before` is the path that leads to it.
    fn tree(&mut self, tokens: &[TokenTree], before: &[String], module: &[String], public: bool) {
        let mut path = before.to_vec();
        let mut name = None;
        let mut at = 0;
        let line = tokens.first().map_or(0, line_of);
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in inner.split(|token| is(token, ',')) {
                        self.tree(part, &path, module, public);
                    }
                    return;
                }
                TokenTree::Punct(_) if at == 0 && before.is_empty() && colons(tokens, at) => {
                    path.push(String::new());
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => name = Some("*".to_owned()),
                TokenTree::Ident(_) => match name_of(&tokens[at]).unwrap().as_str() {
                    "as" => {
                        name = tokens.get(at + 1).and_then(name_of);
                        at += 1;
                    }
                    "self" if !path.is_empty() => {}
                    segment => path.push(segment.to_owned()),
                },
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
        let Some(last) = path.last().cloned() else {
            return;
        };
        self.imports.push(Import {
            written: Written {
                module: module.to_vec(),
                path,
                line,
            },
            name: name.unwrap_or(last),
            public,
        });
    }

    /// Reads an attribute, in which a string may be a path: `#[serde(with = "crate::a::b")]`. Returns the index of the
    /// next token.
    fn attribute(&mut self, tokens: &[TokenTree], at: usize, module: &[String]) -> usize {
        let body = at + 1 + usize::from(tokens.get(at + 1).is_some_and(|next| is(next, '!')));
        let Some(TokenTree::Group(group)) = tokens.get(body) else {
            return at + 1;
        };
        let inner: Vec<TokenTree> = group.stream().into_iter().collect();
        if inner.first().and_then(name_of).as_deref() != Some("doc") {
            self.scan(&inner, module);
            self.strings(&inner, module);
        }
        body + 1
    }

    fn strings(&mut self, tokens: &[TokenTree], module: &[String]) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    self.strings(&group.stream().into_iter().collect::<Vec<_>>(), module);
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if let Ok(tokens) = TokenStream::from_str(text.trim_matches('"')) {
                        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
                        if !tokens.is_empty() && tokens.first().and_then(name_of).is_some() {
                            let (path, end) = path_at(&tokens, 0);
                            if end == tokens.len() && path.len() > 1 {
                                self.path(module, path, line_of(token));
                            }
                        }
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    fn path(&mut self, module: &[String], path: Vec<String>, line: usize) {
        let module = module.to_vec();
        self.paths.push(Written { module, path, line });
    }
}

/// Words that begin no path. A `::` after them starts a new path.
const KEYWORDS: [&str; 30] = [
    "as", "box", "break", "const", "continue", "dyn", "else", "enum", "extern", "for", "if",
    "impl", "in", "let", "loop", "match", "move", "mut", "pub", "ref", "return", "static",
    "struct", "trait", "type", "unsafe", "use", "where", "while", "yield",
];

/// Returns the path that starts at a word, and the index after its end.
fn path_at(tokens: &[TokenTree], at: usize) -> (Vec<String>, usize) {
    let mut path = vec![name_of(&tokens[at]).unwrap()];
    let mut end = at + 1;
    while colons(tokens, end) {
        let Some(name) = tokens.get(end + 2).and_then(name_of) else {
            break;
        };
        path.push(name);
        end += 3;
    }
    (path, end)
}

fn colons(tokens: &[TokenTree], at: usize) -> bool {
    let joint = matches!(tokens.get(at), Some(TokenTree::Punct(punct))
        if punct.as_char() == ':' && punct.spacing() == Spacing::Joint);
    joint && tokens.get(at + 1).is_some_and(|token| is(token, ':'))
}

fn is(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn name_of(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => {
            let name = ident.to_string();
            Some(name.strip_prefix("r#").map_or(name.clone(), str::to_owned))
        }
        TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    }
}

fn line_of(token: &TokenTree) -> usize {
    token.span().start().line
}

/// Whether these tokens end with a visibility such as `pub` or `pub(crate)`.
fn is_public(before: &[TokenTree]) -> bool {
    let word = match before {
        [.., word, TokenTree::Group(scope)] if scope.delimiter() == Delimiter::Parenthesis => word,
        [.., word] => word,
        [] => return false,
    };
    name_of(word).as_deref() == Some("pub")
}
