//! The reader on the malformed and odd files of `cases/gguf`, on files made here, and on a good
//! file with every byte of its header damaged.

use std::fs;
use std::path::{Path, PathBuf};
use tokstep::gguf::{Gguf, Value};
use tokstep::{Error, Result};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/gguf")
}

fn good() -> Vec<u8> {
    fs::read(cases().join("good.gguf")).unwrap()
}

/// Reads everything the file offers, so that a place that was not checked would panic.
fn touch(g: &Gguf) -> usize {
    let mut n = 0;
    for (key, value) in g.meta() {
        assert!(g.get(key).is_some());
        n += value.to_string().len();
        if let Value::Array(a) = value {
            n += a.strs().map_or(0, |s| s.map(<[u8]>::len).sum());
            n += a.scalars().map_or(0, |s| s.count());
        }
    }
    for t in g.tensors() {
        let data = g.data(t).unwrap();
        n += data.len() + usize::from(data.first() == data.last());
        assert_eq!(data.len() as u64, t.bytes());
    }
    n
}

fn open(name: &str) -> Result<Gguf> {
    let g = Gguf::open(&cases().join(name))?;
    touch(&g);
    Ok(g)
}

/// Cases that look like the reader's but are wrong only for a model.
const FOR_THE_MODEL: &[&str] = &["t_dims_swapped", "t_missing_weight"];

#[test]
fn every_case_of_the_manifest_behaves() {
    let list: serde_json::Value =
        serde_json::from_slice(&fs::read(cases().join("cases.json")).unwrap()).unwrap();
    for case in list.as_array().unwrap() {
        let name = case["case"].as_str().unwrap();
        let ours = ["hdr_", "kv_", "t_", "data_", "split_"]
            .iter()
            .any(|p| name.starts_with(p));
        let result = open(case["file"].as_str().unwrap());
        match (
            ours && !FOR_THE_MODEL.contains(&name),
            case["expect"].as_str().unwrap(),
        ) {
            (true, "reject") => assert!(result.is_err(), "{name} was accepted"),
            (true, "either") => {}
            _ => {
                result.unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    for (name, words) in [
        ("hdr_empty", "it is empty"),
        ("hdr_magic_only", "the file has 4"),
        ("hdr_wrong_magic", "\"GGML"),
        ("hdr_text_file", "web page"),
        ("hdr_version_0", "version 0"),
        ("hdr_version_1", "version 1"),
        ("hdr_big_endian", "big-endian"),
        ("hdr_n_kv_2p63", "9223372036854775808"),
        ("hdr_n_tensors_minus_1", "18446744073709551615"),
        ("hdr_24_bytes_n_kv_500m", "24 bytes"),
        ("kv_type_13", "value type 13"),
        ("kv_array_elem_type_99", "value type 99"),
        ("kv_duplicate_conflict", "twice"),
        ("kv_align_0", "general.alignment is 0"),
        ("kv_align_1", "general.alignment is 1"),
        ("kv_align_48", "general.alignment is 48"),
        ("t_ndims_0", "0 dimensions"),
        ("t_ndims_2p31", "2147483648 dimensions"),
        ("t_dims_product_wraps", "shape [8589934592, 8589934592]"),
        ("t_type_4", "type 4 (Q4_2)"),
        ("t_type_36", "type 36 (IQ4_NL_4_4)"),
        ("t_type_ffffffff", "unknown type 4294967295"),
        ("t_offset_1", "alignment 32"),
        ("t_row_not_block_multiple", "Q4_0 needs a multiple of 32"),
        ("t_duplicate_name", "twice"),
        ("t_name_not_utf8", "not UTF-8"),
        (
            "data_short_1",
            "ends at byte 19904 but the file has only 19903",
        ),
        ("data_none", "has only 2112 bytes"),
        (
            "split_second_missing-00001-of-00002",
            "split_second_missing-00002-of-00002.gguf is",
        ),
        ("split_ok-00002-of-00002", "open its first part"),
    ] {
        let error = open(&format!("{name}.gguf")).unwrap_err().to_string();
        assert!(error.contains(words), "{name}: {error}");
        assert!(
            error.contains(&format!("{name}.gguf: ")),
            "no path: {error}"
        );
    }
}

#[test]
fn odd_but_valid_files_are_read() {
    let g = open("kv_unknown_keys.gguf").unwrap();
    assert_eq!((g.version(), g.alignment(), g.file_bytes()), (3, 32, 20160));
    assert_eq!(open("align_64.gguf").unwrap().alignment(), 64);
    assert_eq!(open("kv_align_u64.gguf").unwrap().alignment(), 32);
    let g = open("kv_name_not_utf8.gguf").unwrap();
    assert!(
        g.get("general.name")
            .unwrap()
            .as_str_lossy()
            .unwrap()
            .contains('\u{fffd}')
    );
    assert!(matches!(g.str("general.name"), Err(Error::KeyType { .. })));
    let g = open("tok_token_not_utf8.gguf").unwrap();
    let tokens = g.strs("tokenizer.ggml.tokens").unwrap().unwrap();
    assert!(tokens.iter().any(|t| str::from_utf8(t).is_err()));
    open("kv_array_nested.gguf").unwrap();
    open("t_reordered.gguf").unwrap();
}

#[test]
fn split_files_hold_the_tensors_of_all_parts() {
    let (whole, split) = (
        open("good.gguf").unwrap(),
        open("split_ok-00001-of-00002.gguf").unwrap(),
    );
    assert_eq!(split.file_bytes(), 10688 + 9408);
    assert_eq!(whole.tensors().len(), split.tensors().len());
    for t in whole.tensors() {
        assert_eq!(
            whole.data(t).unwrap(),
            split
                .data(split.tensor(&t.name, &t.shape).unwrap())
                .unwrap(),
            "{}",
            t.name
        );
    }
}

#[test]
fn split_files_that_do_not_belong_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("m-00001-of-00002.gguf");
    let second = dir.path().join("m-00002-of-00002.gguf");
    let case = |part: &str| fs::read(cases().join(format!("split_ok-{part}.gguf"))).unwrap();
    fs::write(&first, case("00001-of-00002")).unwrap();
    fs::write(&second, good()).unwrap();
    assert!(matches!(Gguf::open(&first), Err(Error::SplitMixed { .. })));
    fs::write(&second, case("00002-of-00002")).unwrap();
    Gguf::open(&first).unwrap();
    fs::write(&second, &case("00002-of-00002")[..9000]).unwrap();
    match Gguf::open(&first) {
        Err(Error::TensorTruncated { path, .. }) => assert_eq!(path, second),
        other => panic!("{other:?}"),
    }
    let renamed = dir.path().join("m.gguf");
    fs::rename(&first, &renamed).unwrap();
    assert!(matches!(
        Gguf::open(&renamed),
        Err(Error::SplitName {
            no: 1,
            count: 2,
            ..
        })
    ));
    for (no, count) in [(u64::MAX, 1), (0, u64::MAX), (3, 0), (0, 1 << 31)] {
        let meta = [
            ("split.no", 10, &no.to_le_bytes()[..]),
            ("split.count", 10, &count.to_le_bytes()),
        ];
        assert!(
            Gguf::from_bytes("lying", file(&meta)).is_err(),
            "{no} of {count}"
        );
    }
}

#[test]
fn what_is_no_file_is_an_io_error() {
    assert!(matches!(Gguf::open(&cases()), Err(Error::Io { .. })));
    assert!(matches!(
        Gguf::open(&cases().join("none.gguf")),
        Err(Error::Io { .. })
    ));
}

#[test]
fn look_up_checks_presence_and_shape() {
    let g = open("good.gguf").unwrap();
    let t = &g.tensors()[0];
    let tensor = g.tensor(&t.name, &t.shape).unwrap();
    assert_eq!(g.data(tensor).unwrap().len() as u64, t.bytes());
    assert_eq!(t.weights(), t.rows() * t.shape[0]);
    let mut longer = t.shape.clone();
    longer.push(1);
    g.tensor(&t.name, &longer).unwrap();
    let wrong = g.tensor(&t.name, &[7, 5]).err().unwrap().to_string();
    assert!(
        wrong.contains("[7, 5]") && wrong.contains(&format!("{:?}", t.shape)),
        "{wrong}"
    );
    let missing = g.tensor("blk.9.none", &[1]).err().unwrap().to_string();
    assert!(missing.contains("blk.9.none"), "{missing}");
}

/// Where the offset of a tensor stands in the header.
fn offset_of(file: &[u8], name: &str) -> usize {
    let at = file
        .windows(name.len())
        .position(|w| w == name.as_bytes())
        .unwrap()
        + name.len();
    let dims = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    at + 4 + 8 * dims + 4
}

#[test]
fn overlapping_tensors_are_refused_by_name() {
    let mut file = good();
    let g = Gguf::from_bytes("good", file.clone()).unwrap();
    let (a, b) = (&g.tensors()[0].name, &g.tensors()[1].name);
    let from = offset_of(&file, a);
    let offset: [u8; 8] = file[from..from + 8].try_into().unwrap();
    let to = offset_of(&file, b);
    file[to..to + 8].copy_from_slice(&offset);
    let error = Gguf::from_bytes("overlap", file).unwrap_err().to_string();
    assert!(error.contains(a) && error.contains(b), "{error}");
}

fn text(s: &[u8]) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes(), s].concat()
}

/// A file without tensors: keys, value types and the bytes of the values.
fn file(meta: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut f = b"GGUF\x02\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    f.extend((meta.len() as u64).to_le_bytes());
    for (key, ty, value) in meta {
        f.extend(text(key.as_bytes()));
        f.extend(ty.to_le_bytes());
        f.extend(*value);
    }
    f
}

/// An array value: element type, count, elements.
fn array(elem: u32, len: u64, elems: &[u8]) -> Vec<u8> {
    [&elem.to_le_bytes()[..], &len.to_le_bytes(), elems].concat()
}

#[test]
fn metadata_is_converted_when_it_fits() {
    let floats = array(6, 2, &[1.5f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat());
    let ints = array(5, 2, &[3i32.to_le_bytes(), 4i32.to_le_bytes()].concat());
    let negative = array(5, 1, &(-1i32).to_le_bytes());
    let strs = array(8, 2, &[text(b"ab"), text(b"\xff")].concat());
    let f = file(&[
        ("u8", 0, &[200]),
        ("i64", 11, &7i64.to_le_bytes()),
        ("minus", 5, &(-1i32).to_le_bytes()),
        ("big", 10, &(1u64 << 40).to_le_bytes()),
        ("f64", 12, &0.5f64.to_le_bytes()),
        ("yes", 7, &[1]),
        ("s", 8, &text(b"hi")),
        ("floats", 9, &floats),
        ("ints", 9, &ints),
        ("negative", 9, &negative),
        ("strs", 9, &strs),
        ("none", 9, &array(8, 0, b"")),
    ]);
    let g = Gguf::from_bytes("m", f).unwrap();
    assert_eq!(g.version(), 2);
    assert_eq!(g.need_u32("u8").unwrap(), 200);
    assert_eq!(g.need_u32("i64").unwrap(), 7);
    assert_eq!(g.u64("big").unwrap(), Some(1 << 40));
    assert_eq!(g.need_f32("f64").unwrap(), 0.5);
    assert_eq!(g.bool("yes").unwrap(), Some(true));
    assert_eq!(g.need_str("s").unwrap(), "hi");
    assert_eq!(g.f32s("floats").unwrap(), Some(vec![1.5, 2.0]));
    assert_eq!(g.u32s("ints").unwrap(), Some(vec![3, 4]));
    assert_eq!(g.strs("strs").unwrap(), Some(vec![&b"ab"[..], b"\xff"]));
    assert_eq!(g.strs("none").unwrap(), Some(vec![]));
    assert_eq!(g.u32("absent").unwrap(), None);
    assert_eq!(g.get("strs").unwrap().to_string(), "string[2]");
    for error in [
        g.u32("big").err(),
        g.u32("minus").err(),
        g.u32("s").err(),
        g.f32("u8").err(),
        g.bool("u8").err(),
        g.u32s("negative").err(),
        g.strs("ints").err(),
    ] {
        assert!(matches!(error, Some(Error::KeyType { .. })), "{error:?}");
    }
    assert!(matches!(
        g.need_u32("absent"),
        Err(Error::KeyMissing { .. })
    ));
}

#[test]
fn arrays_nest_a_little_and_no_deeper() {
    for depth in [1, 2, 3, 4, 5, 6, 100_000] {
        let value = [array(9, 1, b"").repeat(depth - 1), array(4, 0, b"")].concat();
        let result = Gguf::from_bytes("nested", file(&[("k", 9, &value)]));
        assert_eq!(result.is_ok(), depth <= 4, "{depth}");
    }
}

#[test]
fn a_damaged_header_never_panics() {
    let good = good();
    let header = Gguf::from_bytes("good", good.clone()).unwrap();
    let data: u64 = header
        .tensors()
        .iter()
        .map(|t| t.bytes().next_multiple_of(32))
        .sum();
    let header = good.len() - data as usize;
    assert!((1000..4000).contains(&header));
    for len in 0..header {
        assert!(
            Gguf::from_bytes("short", good[..len].to_vec()).is_err(),
            "{len}"
        );
    }
    let mut read = 0;
    let mut attempt = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        let end = (at + bytes.len()).min(file.len());
        file[at..end].copy_from_slice(&bytes[..end - at]);
        read += Gguf::from_bytes("damaged", file).map_or(0, |g| touch(&g).min(1));
    };
    for (at, &b) in good[..header].iter().enumerate() {
        for v in [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            b ^ 1,
            b ^ 0x80,
            b.wrapping_add(1),
            b.wrapping_sub(1),
        ] {
            attempt(at, &[v]);
        }
        for v in [u64::MAX, 1 << 63, 1 << 61, u64::MAX - 31, 1 << 32, 0] {
            attempt(at, &v.to_le_bytes());
        }
    }
    assert!(
        read > 1000,
        "damaged names and values alone are no reason to refuse: {read}"
    );
}
