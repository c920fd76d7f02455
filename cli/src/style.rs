//! Colour, where a person sees it: on a terminal, unless `NO_COLOR` is set.

use std::io::IsTerminal;

/// Whether stderr takes colour.
pub(crate) fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn paint(code: &str, text: &str) -> String {
    if colour() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Text that says that all is well.
pub(crate) fn good(text: &str) -> String {
    paint("32", text)
}

/// Text that says that something is wrong.
pub(crate) fn bad(text: &str) -> String {
    paint("31;1", text)
}

/// Text that stands out.
pub(crate) fn strong(text: &str) -> String {
    paint("1", text)
}

/// `text` as one word of a POSIX shell's command line.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:,=@%".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
