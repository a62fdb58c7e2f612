//! The secret that a client on another machine must send.

use crate::{Error, ErrorKind};

/// The start of a token line. Its first bytes differ from those of every trace.
pub const TOKEN_PREFIX: &str = "MEMLEDGER-TOKEN ";

/// The number of characters that a token can have.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;

/// The line that a program on another machine sends to a recorder before its trace.
///
/// # Errors
/// As [`check_token`].
///
/// # Examples
/// ```
/// let line = memledger_store::token_line("correct-horse-battery")?;
/// assert_eq!(line, "MEMLEDGER-TOKEN correct-horse-battery\n");
/// # Ok::<(), memledger_store::Error>(())
/// ```
pub fn token_line(token: &str) -> Result<String, Error> {
    check_token(token)?;
    Ok(format!("{TOKEN_PREFIX}{token}\n"))
}

/// Whether this can be a token: 16 to 256 printable ASCII characters without spaces.
///
/// # Errors
/// [`ErrorKind::InvalidToken`] with the reason, which does not contain the token.
pub fn check_token(token: &str) -> Result<(), Error> {
    let length = token.chars().count();
    if !LENGTHS.contains(&length) {
        return Err(Error::new(
            ErrorKind::InvalidToken,
            format!(
                "a token has {} to {} characters; this one has {length}",
                LENGTHS.start(),
                LENGTHS.end()
            ),
        ));
    }
    match token.chars().position(|char| !char.is_ascii_graphic()) {
        None => Ok(()),
        Some(position) => Err(Error::new(
            ErrorKind::InvalidToken,
            format!(
                "a token has only printable ASCII characters without spaces; character {} of this one is another",
                position + 1
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_characters_at_their_limits() {
        for (token, says) in [
            ("a".repeat(15), Some("16 to 256 characters; this one has 15")),
            ("a".repeat(16), None),
            ("a".repeat(256), None),
            ("a".repeat(257), Some("has 257")),
            ("sixteen letters ".to_owned(), Some("character 8 of")),
            (format!("{}\n", "~".repeat(16)), Some("character 17 of")),
            ("passwörterbücher".to_owned(), Some("character 6 of")),
        ] {
            match (check_token(&token), says) {
                (Ok(()), None) => assert!(token_line(&token).unwrap().ends_with('\n')),
                (Err(error), Some(says)) => {
                    let error = error.to_string();
                    assert!(error.contains(says) && !error.contains(&token), "{error}");
                }
                (result, _) => panic!("{token}: {result:?}"),
            }
        }
    }
}
