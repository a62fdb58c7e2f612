//! Splits the bytes of a client into lines.

use crate::control::command::MAX_LINE_BYTES;

/// The bytes of a client that were not parsed yet: at most [`MAX_LINE_BYTES`], and one for the end
/// of the line.
#[derive(Clone, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
}

/// The error of a line that has no end within [`MAX_LINE_BYTES`] bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    /// The number of bytes that still fit.
    pub(super) fn room(&self) -> usize {
        MAX_LINE_BYTES + 1 - self.bytes.len()
    }

    /// Whether a whole line is waiting.
    pub(super) fn has_line(&self) -> bool {
        self.bytes.iter().skip_while(|byte| is_end(byte)).any(is_end)
    }

    /// Appends bytes, at most as many as there is [`room`](Self::room) for.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes.get(..self.room()).unwrap_or(bytes));
    }

    /// Removes and returns the next line that is not empty, without its end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let start = self.bytes.iter().position(|byte| !is_end(byte)).unwrap_or(self.bytes.len());
        self.bytes.drain(..start);
        match self.bytes.iter().position(is_end) {
            Some(end) => {
                let line = self.bytes.drain(..=end).take(end).collect();
                Ok(Some(line))
            }
            None if self.bytes.len() > MAX_LINE_BYTES => Err(TooLong),
            None => Ok(None),
        }
    }
}

/// Whether the byte ends a line. Unreal's clients use both CR and LF.
fn is_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &mut Lines) -> Option<String> {
        lines.next().unwrap().map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn lines_come_whole_however_their_bytes_come() {
        for size in 1..20 {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for piece in b"\r\nStatus\r\n\n\nStop\rSendTo a\nrest".chunks(size) {
                lines.push(piece);
                assert_eq!(lines.has_line(), text(&mut lines.clone()).is_some());
                seen.extend(std::iter::from_fn(|| text(&mut lines)));
            }
            assert_eq!(seen, ["Status", "Stop", "SendTo a"]);
        }
    }

    #[test]
    fn a_line_has_4096_bytes_and_no_more() {
        let mut lines = Lines::default();
        lines.push(&[b'a'; MAX_LINE_BYTES]);
        assert_eq!(lines.next(), Ok(None));
        assert_eq!(lines.room(), 1);
        lines.push(b"\n");
        assert_eq!(lines.next().unwrap().unwrap().len(), MAX_LINE_BYTES);
        assert_eq!(lines.room(), MAX_LINE_BYTES + 1);

        lines.push(&[b'a'; MAX_LINE_BYTES + 1]);
        assert_eq!(lines.next(), Err(TooLong));
        // Empty lines take no room.
        let mut lines = Lines::default();
        lines.push(&[b'\n'; MAX_LINE_BYTES + 1]);
        assert_eq!(lines.next(), Ok(None));
        assert_eq!(lines.room(), MAX_LINE_BYTES + 1);
    }
}
