//! Chat templates against transformers' renderings, and templates that mean harm.

mod common;

use common::{json, model_trial, trial};
use serde_json::{Map, Value, json};
use std::path::Path;
use tokstep::Error;
use tokstep::gguf::Gguf;
use tokstep::text::{ChatTemplate, Message};

fn render(template: &ChatTemplate, case: &Value) -> tokstep::Result<String> {
    let none = Map::new();
    let extra = case["variables"].as_object().unwrap_or(&none);
    let tools = Some(&case["tools"]).filter(|t| !t.is_null());
    let prompt = case["add_generation_prompt"].as_bool().unwrap_or(false);
    template.render(&case["messages"], tools, prompt, extra)
}

/// Renders a template with two plain messages.
fn run(source: &str) -> tokstep::Result<String> {
    let messages = [
        Message::new("user", "Hi"),
        Message::new("assistant", "1 < 2"),
    ];
    ChatTemplate::new(source)?.render_chat(&messages)
}

fn templates_render_as_transformers_does() {
    let cases = json("cases/chat/templates.json");
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let source = case["template"].as_str().unwrap();
        let found = ChatTemplate::new(source).and_then(|t| render(&t, case));
        let right = match (&found, case["expect"].as_str()) {
            (Ok(found), Some(expected)) => found == expected,
            (Err(Error::Template { .. }), None) => true,
            _ => false,
        };
        if !right {
            wrong.push(format!(
                "{}: {found:?}\nexpected {}",
                case["case"], case["expect"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What jinja2 3.1 and json.dumps print for each of these.
fn like_python() {
    for (source, expected) in [
        (
            "{{ 1e16 }} {{ 0.00001 }} {{ 2.0 }} {{ 1.5 }}",
            "1e+16 1e-05 2.0 1.5",
        ),
        (
            "{{ [1e16, 'it\\'s', none] | tojson }}",
            "[1e+16, \"it's\", null]",
        ),
        (
            "{{ [1, 'a', none, true, {'k': \"it's\"}] }}",
            "[1, 'a', None, True, {'k': \"it's\"}]",
        ),
        (
            "{{ {'a': [], 'b': {}, 'c': [1, {'d': 2}]} | tojson(indent=2) }}",
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": 2\n    }\n  ]\n}",
        ),
        (
            "{{ 'é😀' | tojson(ensure_ascii=true) }}",
            "\"\\u00e9\\ud83d\\ude00\"",
        ),
        ("{{ {1: 2, none: 3} | tojson }}", "{\"1\": 2, \"null\": 3}"),
        ("{{ '%s has %d (%.2f)' % ('a', 5, 1.5) }}", "a has 5 (1.50)"),
        (
            "{{ 2 * 3 - 2 ** 3 * -1 }} {{ 1.5 * 2 }} {{ 'ab' * 2 }} {{ 3 * [1] * 2 }} {{ 2 * (1 + 1)*3 }}",
            "14 3.0 abab [1, 1, 1, 1, 1, 1] 12",
        ),
        (
            "{% macro f(a, b) %}{{ a * b }}{% endmacro %}{{ f(*[2, 3]) }}",
            "6",
        ),
        ("{{ 'é%sü%dß%%' % ('a', 5) }}", "éaü5ß%"),
        (
            "{{ 'é{}ü{0}'.replace('{0}', '{}').format('a', 'b') }}",
            "éaüb",
        ),
        (
            "{{ 'a-b-c'.rsplit('-', 1) }}{{ 'a-b'.partition('-')[2] }}",
            "['a-b', 'c']b",
        ),
        (
            "{{ '{:>5}{:.2f}{a}'.format(1, 2, a='x') }}{{ '{:}>3}'.format(7) }}",
            "    12.00x}}7",
        ),
        (
            "{{ 'a b  c'.split() }}{{ 'abc' | list }}{{ '-'.join('abc') }}{{ 'a\\nb'.splitlines() }}",
            "['a', 'b', 'c']['a', 'b', 'c']a-b-c['a', 'b']",
        ),
        (
            "{{ {'k\"': [1, 'é\\n']} | tojson(indent='-', separators=(';', '=')) }}",
            "{\n-\"k\\\"\"=[\n--1;\n--\"é\\n\"\n-]\n}",
        ),
        (
            "{{ 'xay'.removeprefix('x').removesuffix('y') }}{{ '-7'.zfill(4) }}",
            "a-007",
        ),
        (
            "{% generation %}{% set x = 1 %}g{% endgeneration %}{{ x is defined }}",
            "gFalse",
        ),
        (
            "a\n  {%- generation -%}\n  b\n  {%- endgeneration %}\nc",
            "abc",
        ),
        (
            "{% set p = {'items': 1, 'b': 2} %}{% for k, v in p.items() %}{{ k }}{{ v }}{% endfor %}",
            "items1b2",
        ),
        (
            "{{ nothing }}{{ nothing is defined }}{% for x in nothing %}{% endfor %}",
            "False",
        ),
        (
            "{{ 7 // 2 }} {{ 7 / 2 }} {{ -7 % 3 }} {{ 2 ** 10 }}",
            "3 3.5 2 1024",
        ),
        (
            "{{ messages | selectattr('role', 'in', ['user']) | list | length }}",
            "1",
        ),
        (
            "{{ messages[1].content | upper }}{{ ' x ' | trim }}",
            "1 < 2x",
        ),
        (
            "{%- set ns = namespace(l=[]) -%}{%- set ns.l = ns.l + [1] -%}{{ ns.l }}",
            "[1]",
        ),
    ] {
        assert_eq!(run(source).unwrap(), expected, "{source}");
    }
}

fn a_failing_template_names_its_line() {
    let text = run("a\n{% for m in messages %}\n{{ m.x.y }}\n{% endfor %}")
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("line 3") && text.contains("{{ m.x.y }}"),
        "{text}"
    );
    let text = run("a\nb\n{% if %}").unwrap_err().to_string();
    assert!(
        text.contains("line 3") && text.contains("{% if %}"),
        "{text}"
    );
    let text = run("{{ raise_exception('no') }}").unwrap_err().to_string();
    assert!(text.starts_with("chat template, line 1: no"), "{text}");
    // What is quoted is short, on one line, and the file's own.
    let pad = "é".repeat(2_500_000);
    let long = format!("a\n{pad}{{{{ 2 * m.x.y }}}}{pad}\nb");
    let loud = "{{ raise_exception('a\\r\\n\\n  b' * 100000) }}";
    for (source, part) in [(&*long, "{{ 2 * m.x.y }}"), (loud, "line 1: a ba b")] {
        let text = run(source).unwrap_err().to_string();
        let shown: String = text.chars().take(1000).collect();
        assert!(shown.contains(part), "{shown}");
        assert!(text.chars().count() < 900, "{shown}");
        assert_eq!(text.lines().count(), 2, "{shown}");
    }
    assert!(run("{{ strftime_now('%') }}").is_err());
    assert!(run("{{ messages | tojson(indent=1e9) }}").is_err());
    assert!(run("{{ nothing | tojson }}").is_err());
}

/// None of these may hang, exhaust the memory or the stack.
fn a_hostile_template_is_stopped() {
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    let nest = format!(
        "{}{}",
        "{% if 1 %}".repeat(50_000),
        "{% endif %}".repeat(50_000)
    );
    for source in [
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set x = 'a' * 100000 %}{% for i in range(90000) %}{{ x }}{% endfor %}",
        "{{ 'a' * 99999999999 }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[0], y=[0]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ '' ~ ns.x }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = {1: ns.x, 2: ns.x} %}{% endfor %}{{ '' ~ ns.x }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | join }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = [ns.x * 1000] %}{% endfor %}{{ ns.x | string }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x | upper }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = ns.x | zip(ns.x) | list %}{% endfor %}{{ ns.x | join }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = [1, 2] | map(attribute='a', default=ns.x) | list %}{% endfor %}{{ ns.x | join }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = ns.x | chain(ns.x) %}{% endfor %}{{ ns.x | join }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = [1] | batch(3, ns.x) | list %}{% endfor %}{{ ns.x | join }}",
        "{% set ns = namespace(x=[[0]]) %}{% for i in range(60) %}{% set ns.x = [ns.x] | sum(start=ns.x) %}{% endfor %}{{ ns.x | join }}",
        "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = namespace(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x | string }}",
        "{% macro f(x, n) %}{% if n %}{{ f([x, x], n - 1) }}{% else %}{{ x ~ '' }}{% endif %}{% endmacro %}{{ f([0], 60) }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns ~ '' }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x | join }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns | string }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns | tojson }}",
        "{% set ns = namespace() %}{% set ms = namespace() %}{% set ns.x = ns %}{% set ms.x = ms %}{{ ns == ms }}{{ ns is eq(ms) }}",
        "{{ [1] * 100000000 ~ [1] * 100000000 }}",
        "{% if [1] * 999999999 == [1] * 999999999 %}{{ raise_exception('end') }}{% endif %}",
        "{{ 2 in [1] * 999999999 }}",
        "{{ {'a': {'b': 1}} ~ ('a' * 99999999 ~ 'a' * 99999999 ~ [1] * 99999999) }}",
        "{{ '%(é' | format('a') }}",
        "{{ '%-é' | format('a') }}",
        "{{ '{é' .format('a') }}",
        "{{ '{0:é>9.9999999999}' .format('a') }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ 'x'.zfill(99999999999) | length }}{{ raise_exception('end') }}",
        "{{ '{:>90000000000000}'.format(1) }}",
        "{{ '{:>2000000000}'.format(1) }}",
        "{{ '{:.2000000000f}'.format(1.5) }}",
        "{{ '{:}>2000000000}'.format(1) }}",
        "{{ '{a[}]:>2000000000}'.format(a={'}': 1}) }}",
        "{{ '{:>{}}'.format(1, 90000000000) }}",
        "{{ ('{0:>60000}' * 10000).format(1) }}",
        "{% set s = 'a' * 1000000 %}{{ ('{0}' * 10000).format(s) }}",
        "{% set s = 'a' * 1000000 %}{{ ('{0[0]}' * 10000).format([s]) }}",
        "{% set s = 'a' * 1000000 %}{{ range(50000) | list | tojson(separators=(s, s)) }}",
        "{% set s = 'a' * 1000000 %}{{ {1: 2, 3: 4} | tojson(separators=('', s * 40)) }}",
        "{% set s = 'a' * 1000000 %}{{ [range(50000) | list] | tojson(indent=s) }}",
        "{% set s = 'a' * 30000000 %}{{ [s, s] | tojson }}",
        "{% set s = 'a' * 30000000 %}{{ [1] | tojson(separators=s) }}",
        "{% set s = 'a' * 30000000 %}{{ s.split('a') | length }}",
        "{% set s = 'a ' * 15000000 %}{{ s.split() | length }}",
        "{% set s = 'a' * 30000000 %}{{ s.split('') | length }}",
        "{% set s = 'a' * 30000000 %}{{ s.rsplit('a') | length }}",
        "{% set s = '\\n' * 30000000 %}{{ s.splitlines() | length }}",
        "{% set s = 'a' * 30000000 %}{{ s | split('a') | length }}",
        "{% set s = '\\n' * 30000000 %}{{ s | lines | length }}",
        "{% set s = 'a' * 30000000 %}{{ s | list | length }}",
        "{% set s = 'a' * 30000000 %}{{ s | batch(1) | length }}",
        "{% set s = 'a' * 30000000 %}{{ ('-' * 63).join(s) | length }}",
        "{% set s = 'a' * 10000000 %}{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = ns.x + [s.partition('b')] %}{% endfor %}",
        deep.as_str(),
        nest.as_str(),
    ] {
        let start = std::time::Instant::now();
        let found = run(source);
        let shown = &source[..source.len().min(80)];
        assert!(found.is_err(), "{shown}: {} bytes", found.unwrap().len());
        let seconds = start.elapsed().as_secs_f32();
        assert!(seconds < 20.0, "{shown}: {seconds} s");
        eprintln!("{seconds:.2} s {shown}");
    }
}

/// A value nested deeper than the stack would allow to print or drop naively.
fn a_deeply_nested_value_does_no_harm() {
    let build = "{% set ns = namespace(x=[0]) %}{% for j in range(9) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}";
    for end in [
        "",
        "{{ ns.x | tojson }}",
        "{{ ns.x }}",
        "{{ ns.x == ns.x }}",
    ] {
        let _ = run(&format!("{build}{end}"));
    }
}

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

fn real_templates_render_as_transformers_does(path: &Path) {
    let g = Gguf::open(path).unwrap();
    let template = ChatTemplate::from_gguf(&g).unwrap().unwrap();
    let cases = json("cases/chat/real_templates.json");
    let of_model = cases
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["model_file"] == FILE);
    let mut count = 0;
    for case in of_model {
        use sha2::Digest;
        let found = render(&template, case).unwrap();
        let hash: String = sha2::Sha256::digest(&found)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(
            json!(hash),
            case["expect_sha256"],
            "{}: {found}",
            case["case"]
        );
        count += 1;
    }
    assert_eq!(count, 4);
}

fn main() {
    common::run(vec![
        trial(
            "templates_render_as_transformers_does",
            templates_render_as_transformers_does,
        ),
        trial("like_python", like_python),
        trial(
            "a_failing_template_names_its_line",
            a_failing_template_names_its_line,
        ),
        trial(
            "a_hostile_template_is_stopped",
            a_hostile_template_is_stopped,
        ),
        trial(
            "a_deeply_nested_value_does_no_harm",
            a_deeply_nested_value_does_no_harm,
        ),
        model_trial(
            "real_templates_render_as_transformers_does",
            FILE,
            real_templates_render_as_transformers_does,
        ),
    ]);
}
