//! Regular expressions that strangers send, over the names of topics.
//!
//! Matching takes time in proportion to the length of the names, whatever the expression: there is no backtracking. An
//! expression that would take more than `COMPILED_BYTES_MAX` when it is compiled is none.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regex::bytes::{Regex, RegexBuilder};

/// What a compiled expression may take, in bytes; `(a{1000}){1000}` would take gigabytes.
const COMPILED_BYTES_MAX: usize = 256 * 1024;

/// How deep groups may be nested.
const NESTING_MAX: u32 = 100;

/// The expression with what stands between `\Q` and `\E` made literal, as RE2 reads it.
fn unquoted(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        if let Some(quoted) = escape.strip_prefix("\\Q") {
            let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            plain.push_str(&regex::escape(literal));
            rest = after;
        } else {
            let next = escape[1..].chars().next().map_or(0, char::len_utf8);
            plain.push_str(&escape[..1 + next]);
            rest = &escape[1 + next..];
        }
    }
    plain.push_str(rest);
    plain
}

fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .nest_limit(NESTING_MAX)
        .build()
}

/// The expression, to match whole names. It must be one by itself, so that `a)|(b` does not become one here.
pub fn whole(pattern: &str) -> Result<Regex, regex::Error> {
    let plain = unquoted(pattern);
    compiled(&plain)?;
    compiled(&format!("\\A(?:{plain})\\z"))
}

/// One line that says what is wrong with an expression.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::Syntax(text) => {
            let last = text.lines().last().unwrap_or("it cannot be read");
            last.trim_start_matches("error: ").to_owned()
        }
        regex::Error::CompiledTooBig(max) => {
            format!("it would take more than {max} bytes when it is compiled")
        }
        other => other.to_string(),
    }
}

/// A regular expression in the syntax of RE2, without Unicode classes.
#[pyclass(frozen, module = "ottla.native")]
struct TopicPattern(Regex);

#[pymethods]
impl TopicPattern {
    #[new]
    #[pyo3(signature = (pattern, /))]
    fn new(pattern: &str) -> PyResult<Self> {
        match whole(pattern) {
            Ok(regex) => Ok(TopicPattern(regex)),
            Err(error) => Err(PyValueError::new_err(reason(&error))),
        }
    }

    /// The names that match as a whole.
    #[pyo3(signature = (names, /))]
    fn matching(&self, names: Vec<String>) -> Vec<String> {
        names
            .into_iter()
            .filter(|name| self.0.is_match(name.as_bytes()))
            .collect()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TopicPattern>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        whole(pattern).unwrap().is_match(name.as_bytes())
    }

    #[test]
    fn a_name_matches_as_a_whole() {
        assert!(matches("orders.*", "orders-1"));
        assert!(!matches("orders", "orders-1"));
        assert!(!matches("1", "orders-1"));
        assert!(matches("a|b", "b"));
        assert!(!matches("a|b", "ab"));
        assert!(matches("^a$", "a"));
    }

    #[test]
    fn what_is_quoted_is_literal() {
        assert!(matches("\\Qa.b\\E.", "a.bc"));
        assert!(!matches("\\Qa.b\\E.", "axbc"));
        assert!(matches("a\\Q.", "a."));
        assert!(matches("\\\\Q", "\\Q"));
    }

    #[test]
    fn what_is_no_expression_by_itself_is_refused() {
        for pattern in ["a)|(b", "(", "[", "*", "a(?x)#", "(?=a)", "(a)\\1"] {
            assert!(whole(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn one_that_would_grow_is_refused() {
        assert!(whole("((a{1000}){1000}){1000}").is_err());
        assert!(whole(&"(".repeat(500)).is_err());
    }

    #[test]
    fn one_that_makes_others_backtrack_takes_no_time() {
        let name = "a".repeat(249);
        assert!(!matches("(a+)+b", &name));
        assert!(!matches("(a|a)*b", &name));
    }
}
