//! Stop strings over a stream of text: text that may be the beginning of one is held back.

/// Watches for stop strings.
pub struct StopStrings {
    stops: Vec<String>,
    held: String,
}

impl StopStrings {
    /// Empty strings never stop anything.
    pub fn new(stops: &[String]) -> StopStrings {
        StopStrings {
            stops: stops.iter().filter(|s| !s.is_empty()).cloned().collect(),
            held: String::new(),
        }
    }

    /// Takes new text; returns what is certain not to belong to a stop string, and whether one was
    /// found (the text before it is returned, the rest dropped).
    pub fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        let first = self
            .stops
            .iter()
            .filter_map(|s| self.held.find(s.as_str()))
            .min();
        if let Some(at) = first {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let keep = self
            .stops
            .iter()
            .map(|s| overlap(&self.held, s))
            .max()
            .unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What is still held back at the end.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Length of the longest end of `text` that a stop string begins with.
fn overlap(text: &str, stop: &str) -> usize {
    stop.char_indices()
        .map(|(i, _)| i)
        .skip(1)
        .filter(|n| text.ends_with(&stop[..*n]))
        .last()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_string_across_pieces_is_never_shown() {
        let mut s = StopStrings::new(&["</end>".into(), "STOP".into()]);
        assert_eq!(s.push("a <"), ("a ".into(), false));
        assert_eq!(s.push("b"), ("<b".into(), false));
        assert_eq!(s.push("S</e"), ("S".into(), false));
        assert_eq!(s.push("nd> rest"), (String::new(), true));
    }

    #[test]
    fn the_earliest_of_several_wins_and_the_rest_comes_out_at_the_end() {
        let mut s = StopStrings::new(&["yz".into(), "x".into()]);
        assert_eq!(s.push("axyz"), ("a".into(), true));
        let mut s = StopStrings::new(&["éa".into(), String::new()]);
        assert_eq!(s.push("é"), (String::new(), false));
        assert_eq!(s.flush(), "é");
    }
}
