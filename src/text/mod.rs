//! Text in, text out: the tokenizer and the chat template a GGUF file carries, and the stream that
//! turns token bytes back into whole characters.

mod bound;
mod bpe;
mod jinja;
mod json;
mod pre;
mod pycompat;
mod special;
mod spm;
mod stream;
mod template;
mod tokenizer;
mod vocab;

pub use stream::Utf8Stream;
pub(crate) use template::one_line;
pub use template::{ChatTemplate, Message};
pub use tokenizer::Tokenizer;
