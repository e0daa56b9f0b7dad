use std::fmt;

/// A place that violates a rule, or nearly does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) rule: &'static str,
    pub(super) message: String,
    pub(super) is_error: bool,
}

impl Finding {
    pub(super) fn error(
        path: &str,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            message: message.into(),
            is_error: true,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.is_error { "error" } else { "warning" };
        let (path, line, message) = (&self.path, self.line, &self.message);
        write!(f, "{path}:{line}: {severity}: {message} [{}]", self.rule)
    }
}
