use minijinja::context;
use proptest::prelude::*;

use super::*;

fn rendered(source: &str) -> Result<String, Error> {
    let steps = [
        context! { response => "First Line\nscore: 42", index => 0, agent => "a" },
        context! { response => "it's <ok>", index => 1, agent => "b" },
    ];
    let context = context! {
        topic => "tides",
        items => ["x", "y", "z"],
        facts => context! { a => "<&'>", b => [1, 2] },
        steps => steps,
        long => "ä".repeat(150),
    };
    Templates::new().render(source, context)
}

#[test]
fn templates_of_real_specs_render_as_in_jinja() {
    for (source, expected) in [
        ("plain", "plain"),
        ("Facts about {{ topic }}", "Facts about tides"),
        ("{{ steps[0].response }}", "First Line\nscore: 42"),
        ("{{ steps[-1].agent }}/{{ steps[1]['index'] }}", "b/1"),
        (
            "{% for s in steps %}{{ loop.index }}:{{ s.agent }} {% endfor %}",
            "1:a 2:b ",
        ),
        (
            "{% if 'score' in steps[0].response.lower() %}y{% else %}n{% endif %}",
            "y",
        ),
        (
            "{{ steps[0].response.split('\n')[0].strip().upper() }}",
            "FIRST LINE",
        ),
        (
            "{{ steps[0].response | regex_search('SCORE: (\\\\d+)') }}",
            "42",
        ),
        ("[{{ steps[0].response | regex_search('score') }}]", "[]"),
        ("[{{ topic | regex_search('no(thing)?') }}]", "[]"),
        ("[{{ topic | regex_search('t(x)?ides') }}]", "[]"),
        ("{{ 'abcdef' | truncate(3) }}", "..."),
        ("{{ 'abcdef' | truncate(n=6) }}", "abcdef"),
        ("{{ 'abcdef' | truncate(length=5) }}", "ab..."),
        ("{{ facts | tojson }}", r#"{"a": "<&'>", "b": [1, 2]}"#),
        ("{{ facts.b | tojson(indent=2) }}", "[\n  1,\n  2\n]"),
        ("{{ 'high tide' | title }}", "High Tide"),
        ("{{ items | join(', ') }}", "x, y, z"),
        ("{{ topic | replace('t', 'T') | length }}", "5"),
        ("{{ nobody | default('none') }}", "none"),
        (
            "{{ '  a ' | trim }}{{ 'B' | lower }}{{ 'c' | upper }}",
            "abC",
        ),
        ("{{ steps[1].response }}", "it's <ok>"),
        (
            "{{ true }} {{ none }} {{ items }}",
            "True None ['x', 'y', 'z']",
        ),
        ("{% set x = 1 %}{{ x + 1 }}{# unseen #}", "2"),
        ("{% raw %}{{ topic }}{% endraw %}", "{{ topic }}"),
    ] {
        assert_eq!(rendered(source).as_deref(), Ok(expected), "{source}");
    }
    let long = rendered("{{ long | truncate }}").unwrap();
    assert_eq!(long, "ä".repeat(97) + "...");
}

#[test]
fn undefined_value_is_an_error_that_names_it() {
    for (source, name, line) in [
        ("{{ nobody }}", "`nobody`", 1),
        ("a\nb {{ nobody.at.home }}", "`nobody`", 2),
        ("{{ facts.c }}", "`facts.c`", 1),
        ("{{ steps[7].response }}", "`steps[7]`", 1),
        ("{% for x in nobody %}{% endfor %}", "`nobody`", 1),
        ("{% if nobody %}{% endif %}", "`nobody`", 1),
        ("{{ nobody | upper }}", "`nobody`", 1),
    ] {
        let error = rendered(source).unwrap_err();
        let Fault::Undefined(message) = &error.fault else {
            panic!("{source}: {error:?}")
        };
        assert!(message.contains(name), "{source}: {message}");
        assert_eq!(error.line, Some(line), "{source}");
        assert_eq!(error.code(), "W0104");
    }
    for source in [
        "{{ nobody | tojson }}",
        "{{ nobody | truncate }}",
        "{{ nobody.lower() }}",
    ] {
        assert!(rendered(source).is_err(), "{source}");
    }
}

#[test]
fn check_rejects_templates_that_are_not_self_contained() {
    for source in [
        "{{ topic",
        "{% for x in items %}",
        "{{ 1 + }}",
        "{% nonsense %}",
        "{% include 'other' ignore missing %}",
        "{% extends 'other' %}",
        "{% import 'other' as o %}",
        "{% from 'other' import o %}",
        "{% block b %}{% endblock %}",
        "{% macro m() %}{% endmacro %}",
    ] {
        let error = Templates::new().check(source).expect_err(source);
        assert!(matches!(error.fault, Fault::Syntax(_)), "{source}: {error}");
    }
}

#[test]
fn template_work_and_output_are_bounded() {
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    assert_eq!(
        rendered(nested).unwrap_err().fault,
        Fault::TooManyInstructions
    );
    let wide = "{% for a in range(999) %}{{ 'x' * 100000 }}{% endfor %}";
    assert_eq!(rendered(wide).unwrap_err().fault, Fault::TooLarge);
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(Templates::new().check(&deep).is_err());
    assert!(rendered("{{ 'x' * 1000000000000 }}").is_err());
    assert!(rendered("{{ topic | regex_search('(((a{99}){99}){99}){99}') }}").is_err());
}

#[test]
fn error_of_a_value_is_reported() {
    let failing = Value::from(minijinja::Error::new(
        ErrorKind::InvalidOperation,
        "not loaded",
    ));
    let error = Templates::new()
        .render("{{ steps }}", context! { steps => failing })
        .unwrap_err();
    assert_eq!(error.fault, Fault::Failed("not loaded".to_owned()));
}

proptest! {
    #[test]
    fn output_has_no_control_characters_and_is_nfc(text in any::<String>()) {
        let once = Templates::new().render("{{ text }}", context! { text }).unwrap();
        prop_assert!(once.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        prop_assert_eq!(once.nfc().collect::<String>(), once.clone());
        prop_assert_eq!(normalized(once.clone()), once);
    }

    #[test]
    fn arbitrary_template_does_not_panic(source in r"(\{\{|\}\}|\{%|%\}|[a-z.|()\[\]'~ 0-9\n-]){0,40}") {
        let templates = Templates::new();
        let checked = templates.check(&source);
        let rendered = templates.render(&source, context! { a => "a" });
        prop_assert!(checked.is_ok() || rendered.is_err());
    }

    #[test]
    fn truncate_keeps_the_beginning(text in "\\PC{0,40}", n in 0_usize..40) {
        let templates = Templates::new();
        let short = templates.render("{{ text | truncate(n) }}", context! { text => text.clone(), n }).unwrap();
        let beginning: String = text.chars().take(n.saturating_sub(3)).collect();
        let expected = if text.chars().count() > n { beginning + "..." } else { text };
        prop_assert_eq!(short, normalized(expected));
    }
}

proptest! {
    #[test]
    fn text_without_syntax_renders_like_a_template(text in "[^{]*\\PC*\n?") {
        prop_assume!(!text.contains('{'));
        prop_assert_eq!(rendered(&text), rendered(&format!("{{{{ '' }}}}{text}")));
    }
}
