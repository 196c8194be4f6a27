//! Vocabularies made on the spot: broken ones must be refused by name, odd ones must work, and big
//! ones must be fast.

use tokstep::Error;
use tokstep::gguf::Gguf;
use tokstep::text::Tokenizer;

/// A GGUF file without tensors.
#[derive(Clone, Default)]
struct File {
    count: u64,
    bytes: Vec<u8>,
}

impl File {
    fn key(mut self, key: &str, ty: u32) -> File {
        self.count += 1;
        self.text(key.as_bytes());
        self.bytes.extend(ty.to_le_bytes());
        self
    }

    fn text(&mut self, text: &[u8]) {
        self.bytes.extend((text.len() as u64).to_le_bytes());
        self.bytes.extend(text);
    }

    fn str(self, key: &str, value: &str) -> File {
        let mut file = self.key(key, 8);
        file.text(value.as_bytes());
        file
    }

    fn u32(self, key: &str, value: u32) -> File {
        let mut file = self.key(key, 4);
        file.bytes.extend(value.to_le_bytes());
        file
    }

    fn bool(self, key: &str, value: bool) -> File {
        let mut file = self.key(key, 7);
        file.bytes.push(value.into());
        file
    }

    fn array(self, key: &str, ty: u32, len: usize) -> File {
        let mut file = self.key(key, 9);
        file.bytes.extend(ty.to_le_bytes());
        file.bytes.extend((len as u64).to_le_bytes());
        file
    }

    fn strs(self, key: &str, values: &[impl AsRef<[u8]>]) -> File {
        let mut file = self.array(key, 8, values.len());
        for value in values {
            file.text(value.as_ref());
        }
        file
    }

    fn i32s(self, key: &str, values: &[i32]) -> File {
        let mut file = self.array(key, 5, values.len());
        file.bytes
            .extend(values.iter().flat_map(|v| v.to_le_bytes()));
        file
    }

    fn f32s(self, key: &str, values: &[f32]) -> File {
        let mut file = self.array(key, 6, values.len());
        file.bytes
            .extend(values.iter().flat_map(|v| v.to_le_bytes()));
        file
    }

    fn open(&self) -> tokstep::Result<Tokenizer> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(&self.bytes);
        Tokenizer::from_gguf(&Gguf::from_bytes("made.gguf", bytes)?)
    }
}

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";

fn bpe(tokens: &[&[u8]], merges: &[&[u8]]) -> File {
    File::default()
        .str("tokenizer.ggml.model", "gpt2")
        .str("tokenizer.ggml.pre", "gpt-2")
        .strs(TOKENS, tokens)
        .strs(MERGES, merges)
}

fn spm(tokens: &[&[u8]], types: &[i32], scores: &[f32]) -> File {
    File::default()
        .str("tokenizer.ggml.model", "llama")
        .strs(TOKENS, tokens)
        .i32s(TYPES, types)
        .f32s(SCORES, scores)
        .bool("tokenizer.ggml.add_space_prefix", false)
}

fn refused(file: File) -> Error {
    match file.open() {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

#[test]
fn broken_vocabularies_are_refused_by_name() {
    let model = |name| File::default().str("tokenizer.ggml.model", name);
    assert!(matches!(refused(File::default()), Error::KeyMissing { .. }));
    assert!(matches!(refused(model("quux")), Error::TokenizerModel { name, .. } if name == "quux"));
    assert!(matches!(refused(model("gpt2")), Error::KeyMissing { key, .. } if key == TOKENS));
    assert!(matches!(
        refused(model("gpt2").u32(TOKENS, 1)),
        Error::KeyType { .. }
    ));
    let none: [&str; 0] = [];
    assert!(matches!(
        refused(model("gpt2").strs(TOKENS, &none)),
        Error::KeyMissing { .. }
    ));
    let unknown = model("gpt2")
        .str("tokenizer.ggml.pre", "quux")
        .strs(TOKENS, &["a"]);
    let text = refused(unknown).to_string();
    assert!(
        text.contains("\"quux\"") && text.contains("llama-bpe"),
        "{text}"
    );
    for merge in [&b"ab"[..], b"", b" ", b"a ", b"\xFF b"] {
        let error = refused(bpe(&[b"a", b"b", b"ab"], &[b"a b", merge]));
        assert!(
            matches!(error, Error::VocabMerge { index: 1, .. }),
            "{merge:?}: {error}"
        );
    }
    let short = |key| move |e: Error| matches!(e, Error::VocabLength { key: k, .. } if k == key);
    assert!(short(TYPES)(refused(
        bpe(&[b"a", b"b"], &[]).i32s(TYPES, &[1])
    )));
    assert!(short(SCORES)(refused(spm(&[b"a", b"b"], &[1, 1], &[0.0]))));
    assert!(matches!(
        refused(bpe(&[b"a"], &[]).i32s(TYPES, &[-1])),
        Error::KeyType { .. }
    ));
    let unscored = model("llama").strs(TOKENS, &["a"]);
    assert!(matches!(refused(unscored), Error::KeyMissing { key, .. } if key == SCORES));
    let eos = bpe(&[b"a"], &[]).str("tokenizer.ggml.eos_token_id", "a");
    assert!(matches!(refused(eos), Error::KeyType { .. }));
}

#[test]
fn odd_vocabularies_work() {
    // Not UTF-8, empty, twice, merges into nothing, ids past the end, unknown types.
    let tokens: &[&[u8]] = &[b"a", b"b", b"ab", b"\xFF\xFE", b"", b"ab", b"<|im_end|>"];
    let t = bpe(tokens, &[b"a b", b"ab b", b"x y"])
        .i32s(TYPES, &[1, 1, 1, 1, 99, 1, 3])
        .u32("tokenizer.ggml.bos_token_id", 7)
        .u32("tokenizer.ggml.eos_token_id", u32::MAX)
        .bool("tokenizer.ggml.add_bos_token", true)
        .open()
        .unwrap();
    assert_eq!(t.encode("aabb<|im_end|>", false, true).unwrap(), [0, 2, 1]);
    assert_eq!(t.encode("ab<|im_end|>", true, true).unwrap(), [2, 6]);
    assert_eq!((t.bos(), t.eos(), t.n_vocab()), (None, None, 7));
    assert!(t.is_end(6) && t.is_control(6) && !t.is_end(2));
    assert_eq!(t.token_bytes(3).unwrap(), &b"\xFF\xFE"[..]);
    assert_eq!(t.token_bytes(7), None);
    assert_eq!(t.decode(&[2, 3, 99, 6, 4], false), "ab\u{FFFD}\u{FFFD}");

    // Without byte tokens what is no piece becomes the unknown token, or nothing.
    let tokens: &[&[u8]] = &[b"<unk>", b"<s>", b"</s>", b"a", b"aa", b"aaa"];
    let t = spm(
        tokens,
        &[2, 3, 3, 1, 1, 1],
        &[0.0, 0.0, 0.0, f32::NAN, -0.0, 0.0],
    );
    let t = t.open().unwrap();
    // Of equal scores the leftmost merges first: aa a a a, aaa a a, aaa aa.
    assert_eq!(t.encode("aaaaa", false, false).unwrap(), [5, 4]);
    assert_eq!(t.encode("a\u{e9}", false, true).unwrap(), [1, 3, 0, 0]);
    assert_eq!(t.encode("<s>a", true, true).unwrap(), [1, 3]);
}

/// A prompt has BOS but never EOS, whatever the file says of EOS; its parts are one text, in which
/// no special token is seen across a seam and only the first word gets a space.
#[test]
fn prompts_go_on() {
    let tokens: &[&[u8]] = &[
        b"<unk>",
        b"<s>",
        b"</s>",
        b"a",
        b"\xE2\x96\x81",
        b"<",
        b"/s>",
    ];
    let t = File::default()
        .str("tokenizer.ggml.model", "llama")
        .strs(TOKENS, tokens)
        .i32s(TYPES, &[2, 3, 3, 1, 1, 1, 1])
        .f32s(SCORES, &[0.0; 7])
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .bool("tokenizer.ggml.add_bos_token", true)
        .bool("tokenizer.ggml.add_eos_token", true)
        .bool("tokenizer.ggml.add_space_prefix", true)
        .open()
        .unwrap();
    assert_eq!(t.encode("a", true, true).unwrap(), [1, 4, 3, 2]);
    assert_eq!(t.encode_prompt(["a"], true).unwrap(), [1, 4, 3]);
    assert_eq!(t.encode_prompt(["<s>a"], true).unwrap(), [1, 4, 3]);
    let parts = t.encode_prompt(["a<", "a"], true).unwrap();
    assert_eq!(parts, [1, 4, 3, 5, 3]);
    assert!(t.is_special(0) && t.is_special(2) && !t.is_special(3));
}

/// Longer special tokens are found first, wherever they stand; only whole ones.
#[test]
fn special_tokens() {
    let mut tokens: Vec<Vec<u8>> = (33..127).map(|b| vec![b]).collect();
    let types_plain = vec![1; tokens.len()];
    let first = tokens.len() as u32;
    for special in ["<a>", "<a><b>", "b><c", "<c>", "\u{20ac}"] {
        tokens.push(special.as_bytes().to_vec());
    }
    let types: Vec<i32> = types_plain.into_iter().chain([3, 4, 3, 3, 4]).collect();
    let refs: Vec<&[u8]> = tokens.iter().map(|t| &t[..]).collect();
    let t = bpe(&refs, &[]).i32s(TYPES, &types).open().unwrap();
    let is = |text, special, expected: &[u32]| {
        assert_eq!(t.encode(text, special, false).unwrap(), expected, "{text}");
    };
    let plain = |c: u8| c as u32 - 33;
    is("<a><b><c>", true, &[first + 1, first + 3]);
    is("<a><c>", true, &[first, first + 3]);
    is("<a>", false, &[plain(b'<'), plain(b'a'), plain(b'>')]);
    is("<a><b>\u{20ac}", false, &[first + 1, first + 4]);
    is("\u{20ac}\u{20ad}", false, &[first + 4]); // no byte tokens here: the rest has no ids
}

/// Special tokens that a text nearly holds at every place, of every length.
#[test]
fn long_special_tokens_cost_no_more_than_short_ones() {
    let mut tokens: Vec<Vec<u8>> = vec![b"a".to_vec(), b"b".to_vec()];
    tokens.extend((1..300).map(|n| [vec![b'a'; 3 * n], b"b".to_vec()].concat()));
    let types: Vec<i32> = (0..tokens.len())
        .map(|i| if i < 2 { 1 } else { 4 })
        .collect();
    let refs: Vec<&[u8]> = tokens.iter().map(|t| &t[..]).collect();
    let t = bpe(&refs, &[]).i32s(TYPES, &types).open().unwrap();
    let start = std::time::Instant::now();
    let none = "a".repeat(100_000);
    assert_eq!(t.encode(&none, true, false).unwrap(), vec![0; 100_000]);
    let some = format!("{}b{}b", "a".repeat(4), "a".repeat(30));
    assert_eq!(t.encode(&some, false, false).unwrap(), [0, 2, 11]);
    assert!(start.elapsed().as_secs_f32() < 5.0, "{:?}", start.elapsed());
}

/// 262144 tokens and texts of 100 KB: seconds here would be seconds before the first token.
#[test]
fn big_vocabularies_and_texts() {
    let word = |i: usize| format!("\u{2581}{i:x}").into_bytes();
    let mut tokens: Vec<Vec<u8>> = (0..=255)
        .map(|b| format!("<0x{b:02X}>").into_bytes())
        .collect();
    tokens.extend((0..262144 - 256).map(word));
    let n = tokens.len();
    let types: Vec<i32> = (0..n).map(|i| if i < 256 { 6 } else { 1 }).collect();
    let scores: Vec<f32> = (0..n).map(|i| -(i as f32)).collect();
    let refs: Vec<&[u8]> = tokens.iter().map(|t| &t[..]).collect();
    let start = std::time::Instant::now();
    let t = spm(&refs, &types, &scores).open().unwrap();
    eprintln!("built in {:?}", start.elapsed());
    for text in [
        " 1f 2e".repeat(16_000),
        "\n".repeat(100_000),
        "a".repeat(100_000),
    ] {
        let start = std::time::Instant::now();
        let ids = t.encode(&text, true, false).unwrap();
        let seconds = start.elapsed().as_secs_f32();
        eprintln!("{} bytes -> {} ids in {seconds} s", text.len(), ids.len());
        assert!(t.decode(&ids, true) == text);
        assert!(seconds < 5.0);
    }
}
