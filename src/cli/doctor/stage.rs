//! One stage and what came of it.

use super::anonymous::Anonymous;
use serde_json::{Value, json};
use std::fmt;
use tokstep::Error;

/// Who is at fault when a stage fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    File,
    /// Drivers and device.
    Machine,
}

/// What came of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// What was found.
    Fine(String),
    /// It works, with something to know.
    Note(String, String),
    /// What is wrong, and what to do.
    Failed(String, String),
    /// The same, and it is the file's fault, whatever the stage looks at.
    FileFailed(String, String),
    /// Why it was not tried.
    Skipped(String),
}

impl Outcome {
    /// A failure out of an error, which mostly says what to do by itself.
    pub fn of(e: &Error, advice: &str) -> Outcome {
        Outcome::Failed(e.to_string(), advice.into())
    }
}

/// A stage that is over.
pub struct Stage {
    pub name: &'static str,
    pub whose: Whose,
    pub outcome: Outcome,
}

impl Stage {
    /// Whether what follows can build upon it.
    pub fn went(&self) -> bool {
        matches!(self.outcome, Outcome::Fine(_) | Outcome::Note(..))
    }

    /// Why it did not.
    pub fn why_not(&self) -> &'static str {
        match self.outcome {
            Outcome::Skipped(_) => "was skipped",
            _ => "failed",
        }
    }

    fn parts(&self) -> (&'static str, &str, Option<&str>) {
        match &self.outcome {
            Outcome::Fine(found) => ("fine", found, None),
            Outcome::Note(found, advice) => ("note", found, Some(advice)),
            Outcome::Failed(wrong, advice) | Outcome::FileFailed(wrong, advice) => {
                ("failed", wrong, Some(advice))
            }
            Outcome::Skipped(why) => ("skipped", why, None),
        }
    }

    /// For a report.
    pub fn object(&self, anonymous: &Anonymous) -> Value {
        let (status, found, advice) = self.parts();
        json!({
            "stage": self.name,
            "status": status,
            "fault_of": match self.whose {
                Whose::File => "file",
                Whose::Machine => "machine",
            },
            "found": anonymous.text(found),
            "advice": advice.map(|a| anonymous.text(a)),
        })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (status, found, advice) = self.parts();
        write!(f, "{:10} {status:8} {found}", self.name)?;
        match advice.filter(|a| !a.is_empty()) {
            Some(advice) => write!(f, "\n{:20}-> {advice}", ""),
            None => Ok(()),
        }
    }
}
