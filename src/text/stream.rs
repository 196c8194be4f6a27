//! Characters from a stream of bytes: tokens may end in the middle of one.

/// Collects bytes and gives out whole characters. What is not UTF-8 becomes U+FFFD, exactly as
/// [`String::from_utf8_lossy`] of all bytes together would make it.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// Start of a character whose rest has not come yet: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// An empty stream.
    pub fn new() -> Utf8Stream {
        Utf8Stream::default()
    }

    /// Takes bytes and returns the characters that are now complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = &self.pending[..];
        while let Err(fault) = str::from_utf8(rest) {
            let (valid, bad) = rest.split_at(fault.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            rest = bad;
            let Some(len) = fault.error_len() else {
                self.pending = rest.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[len..];
        }
        text.push_str(&String::from_utf8_lossy(rest));
        self.pending.clear();
        text
    }

    /// Ends the stream: U+FFFD if it broke off inside a character, else nothing.
    pub fn flush(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8Stream;

    /// All strings of up to five of these bytes, cut in every place, give what the whole gives.
    #[test]
    fn like_from_utf8_lossy_wherever_cut() {
        const BYTES: [u8; 9] = [b'a', 0x80, 0xC3, 0xE2, 0xED, 0xA0, 0xF0, 0x9F, 0xFF];
        for n in 0..9usize.pow(5) {
            let bytes: Vec<u8> = (0..5).map(|i| BYTES[n / 9usize.pow(i) % 9]).collect();
            let whole = String::from_utf8_lossy(&bytes);
            for cut in 0..5 {
                let mut stream = Utf8Stream::new();
                let mut text = stream.push(&bytes[..cut]);
                text += &stream.push(&bytes[cut..]);
                text += &stream.flush();
                assert_eq!(text, whole, "{bytes:?} cut at {cut}");
            }
        }
    }
}
