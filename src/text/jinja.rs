//! Rewrites what jinja2 understands and minijinja does not, before a template is compiled. Lines
//! stay where they are, so that errors name the right ones.
//!
//! * `{% generation %}` (marks what the assistant wrote, for training) becomes `{% with %}`, a block
//!   with a scope of its own that only prints what is in it.
//! * `'...' % x` becomes `'...' | format(x)`.
//! * `a * b` becomes `a * (1|abs) * b`: what is made of constants is made by the compiler, where nothing counts
//!   it, unless a filter is among them.

/// What goes in front of the `*` of a product.
pub(super) const FACTOR: &str = "* (1|abs) ";

/// The template for minijinja.
pub(super) fn for_minijinja(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let (tag, after) = match rest.as_bytes().get(1) {
            Some(b'#') => rest.split_at(rest.find("#}").map_or(rest.len(), |i| i + 2)),
            Some(b'%') => rest.split_at(tag_end(rest, "%}")),
            Some(b'{') => rest.split_at(tag_end(rest, "}}")),
            _ => rest.split_at(1),
        };
        rest = after;
        match tag_name(tag) {
            Some("generation") => out.push_str(&tag.replacen("generation", "with", 1)),
            Some("endgeneration") => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            Some("raw") => {
                let end = rest.find("endraw").unwrap_or(rest.len());
                out.push_str(tag);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            _ if tag.starts_with("{%") || tag.starts_with("{{") => {
                out.push_str(&times(&percent(tag)))
            }
            _ => out.push_str(tag),
        }
    }
    out + rest
}

/// The word of a `{% word %}` that holds nothing else.
fn tag_name(tag: &str) -> Option<&str> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    Some(inner.trim_matches(['-', '+']).trim())
}

/// Length of the string literal that `text` begins with, 0 if it begins with none.
fn literal(text: &str) -> usize {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        return 0;
    };
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return i + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the tag that `text` begins with, up to the `close` that stands in no string and no bracket.
fn tag_end(text: &str, close: &str) -> usize {
    let (mut at, mut depth) = (2, 0);
    while let Some(c) = text[at..].chars().next() {
        if depth == 0 && text[at..].starts_with(close) {
            return at + close.len();
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        at += literal(&text[at..]).max(c.len_utf8());
    }
    text.len()
}

/// Turns `'...' % x` into `'...' | format(x)` throughout a tag.
fn percent(tag: &str) -> String {
    let mut out = String::with_capacity(tag.len());
    let mut rest = tag;
    while let Some(c) = rest.chars().next() {
        let len = literal(rest).max(c.len_utf8());
        let (piece, after) = rest.split_at(len);
        out.push_str(piece);
        rest = after;
        if len == 1 {
            continue;
        }
        let operator = rest.trim_start().strip_prefix('%');
        let Some(operand) = operator
            .filter(|o| !o.starts_with('}'))
            .map(str::trim_start)
        else {
            continue;
        };
        let len = operand_len(operand);
        let (value, after) = operand.split_at(len);
        // A tuple gives the arguments one by one.
        let tuple = value.strip_prefix('(').and_then(|v| v.strip_suffix(')'));
        let value = tuple
            .filter(|_| balanced(value) == value.len())
            .unwrap_or(value);
        out.push_str(" | format(");
        out.push_str(&percent(value));
        out.push(')');
        rest = after;
    }
    out
}

/// Puts a factor that is no constant into every product of a tag.
fn times(tag: &str) -> String {
    let mut out = String::with_capacity(tag.len());
    let mut at = 0;
    while let Some(c) = tag[at..].chars().next() {
        let len = literal(&tag[at..]).max(c.len_utf8());
        let product = c == '*' && !tag[..at].ends_with('*') && !tag[at + 1..].starts_with('*');
        let operand =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'' | '"' | ')' | ']' | '}');
        if product && tag[..at].trim_end().ends_with(operand) {
            out.push_str(FACTOR);
        }
        out.push_str(&tag[at..at + len]);
        at += len;
    }
    out
}

/// Length of the bracketed stretch that `text` begins with.
fn balanced(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        at += literal(&text[at..]).max(c.len_utf8());
        if depth <= 0 {
            break;
        }
    }
    at
}

/// Length of the operand that `text` begins with: a literal, name or bracket with what is attached
/// to it (attributes, calls, indices, filters).
fn operand_len(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        let space = rest.len() - trimmed.len();
        let word = |s: &str| {
            s.find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(s.len())
        };
        at += match trimmed.chars().next() {
            Some('\'' | '"') if at == 0 => literal(rest),
            Some('(' | '[' | '{') if space == 0 => balanced(rest),
            Some(c) if at == 0 && (c.is_alphanumeric() || c == '_') => word(rest),
            Some('.') if space == 0 => 1 + word(&rest[1..]),
            Some('|') => {
                let name = trimmed[1..].trim_start();
                rest.len() - name.len() + word(name)
            }
            _ => return at,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::for_minijinja;

    #[test]
    fn rewrites_only_what_it_should() {
        for (source, expected) in [
            ("{{ '%s' % x }}", "{{ '%s' | format(x ) }}"),
            (
                "{{ '%s' % x.y[0]('z)') | upper ~ 1 }}",
                "{{ '%s' | format(x.y[0]('z)') | upper) ~ 1 }}",
            ),
            (
                "{{ \"%s%d\" % ('a', 5) }}",
                "{{ \"%s%d\" | format('a', 5) }}",
            ),
            (
                "{{ '%s' % ('a%s' % b) }}",
                "{{ '%s' | format('a%s' | format(b)) }}",
            ),
            (
                "{% if x == 'a' %}{{ 7 % 2 }}",
                "{% if x == 'a' %}{{ 7 % 2 }}",
            ),
            (
                "{% if x == 'a'%}%{% endif %}",
                "{% if x == 'a'%}%{% endif %}",
            ),
            ("{# '%s' % x #}{ '%s' % x", "{# '%s' % x #}{ '%s' % x"),
            (
                "{% raw %}{{ '%s' % x }}{% endraw %}{{ '%s' % 1 }}",
                "{% raw %}{{ '%s' % x }}{% endraw %}{{ '%s' | format(1) }}",
            ),
            (
                "{{ '%} % x' }}{%- generation -%}g{% endgeneration %}",
                "{{ '%} % x' }}{%- with -%}g{% endwith %}",
            ),
            (
                "{{ [1] * 9 }}{{ f(*a, 2 ** 3) * 'b*c' }}{# 2 * 3 #}*",
                "{{ [1] * (1|abs) * 9 }}{{ f(*a, 2 ** 3) * (1|abs) * 'b*c' }}{# 2 * 3 #}*",
            ),
            (
                "{{ {'a': {'b': 1}} ~ 2 * x }}2 * 3",
                "{{ {'a': {'b': 1}} ~ 2 * (1|abs) * x }}2 * 3",
            ),
            ("{{ 'open", "{{ 'open"),
            ("{{ '%s' % ", "{{ '%s' | format()"),
            ("{{ '%s' % (é", "{{ '%s' | format((é)"),
        ] {
            assert_eq!(
                for_minijinja(source).replace("x )", "x)"),
                expected.replace("x )", "x)"),
                "{source}"
            );
        }
    }
}
