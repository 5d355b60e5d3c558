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
        thousand => 1000,
        million => 1_000_000,
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
    assert!(rendered("{{ 'x' * 1000000000000 }}").is_err());
    assert!(rendered("{{ topic | regex_search('(((a{99}){99}){99}){99}') }}").is_err());
}

#[test]
fn values_that_a_template_builds_are_bounded() {
    let doubled = "{% set x = 'x' * thousand %}".to_owned() + &"{% set x = x ~ x %}".repeat(40);
    let added = "{% set x = 'x' * thousand %}".to_owned() + &"{% set x = x + x %}".repeat(40);
    let captured = "{% set x %}xx{% endset %}".to_owned()
        + &"{% set x %}{{ x }}{{ x }}{% endset %}".repeat(40);
    let nested = "{% set x = ['x'] %}".to_owned() + &"{% set x = [x, x] %}".repeat(60);
    let mapped = "{% set x = {} %}".to_owned() + &"{% set x = {'a': x, 'b': x} %}".repeat(60);
    let made = "{% set x = 1 %}".to_owned() + &"{% set x = dict(a=x, b=x) %}".repeat(60);
    let kept = "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = n.l + ['x' * 9 * million ~ i] %}{% endfor %}";
    for source in [
        &doubled,
        &added,
        &captured,
        &(nested.clone() + "{{ x }}"),
        &(nested.clone() + "{{ x | upper }}"),
        &(nested.clone() + "{{ x | tojson }}"),
        &(nested + "{{ x == x }}"),
        &mapped,
        &made,
        kept,
        "{{ 'x' * 99 * million }}{{ 'x' * 99 * million }}{{ 'x' * 99 * million }}",
        "{{ ([1] * 99 * million) | list }}",
        "{{ ([['x' * million]] * thousand) | upper }}",
        "{{ ('x' * million) | replace('x', 'y' * million) }}",
        "{{ ('x' * million).replace('x', 'y' * million) }}",
        "{{ 'x' | replace('', 'y' * 50 * million) }}",
        "{{ (['x' * million] * thousand) | join }}",
        "{{ range(99999) | join('y' * million) }}",
        "{{ ('y' * million).join(range(99999)) }}",
        "{{ ('\n' * million) | indent(1000) }}",
        "{{ ('\n' * million) | indent(width=1000, blank=true) }}",
        "{{ 'x' | indent(9999999999, true) }}",
        "{{ [1] | batch(9999999999, 'x') }}",
        "{{ [1] | slice(999999999) }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ '%*d' | format(999999999, 1) }}",
        "{{ ('%s' * 100 * thousand) | format('x' * 100 * thousand) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ ('{0}' * 100 * thousand).format('x' * 100 * thousand) }}",
        "{{ ('x ' * 20 * million).split(' ') }}",
        "{{ ('x' * 90 * million) | list }}",
        "{{ 'x' * 100 * 1000000 }}",
        "{{ ('x' * 1000 ~ 'y') * 1000000 }}",
        &"{{ 'x' * 1000000 }}".repeat(40),
        &format!("{{{{ [{}] | length }}}}", "'x' * 99000000, ".repeat(1000)),
    ] {
        let error = rendered(source).expect_err(source);
        let fault = error.fault;
        assert!(
            matches!(fault, Fault::TooMuchMemory | Fault::TooLarge),
            "{source:.120}: {fault}"
        );
    }
}

#[test]
fn text_that_a_template_reads_is_bounded() {
    let read = "{% set x = 'x' * 9 * million %}{% for i in range(99999) %}{% if ('y' in x) %}{% endif %}{% endfor %}";
    assert_eq!(rendered(read).unwrap_err().fault, Fault::TooMuchWork);
    let templates = Templates::new();
    let holds = |source: &str| {
        templates.holds(
            source,
            context! { a => "x".repeat(100), million => 1_000_000 },
        )
    };
    assert_eq!(holds("'x' in a"), Ok(true));
    assert_eq!(
        holds("('x' * 90 * million) ~ ('x' * 90 * million)")
            .unwrap_err()
            .fault,
        Fault::TooMuchMemory
    );
    assert!(holds("list('x' * 90 * million)").is_err());
}

#[test]
fn ordinary_templates_stay_within_the_budget() {
    for (source, expected) in [
        (
            "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + ['x' * 100] %}{% endfor %}{{ n.l | length }}",
            "1000",
        ),
        (
            "{{ [1, 2] + [3] }}{{ (1, 2) + (3,) }}",
            "[1, 2, 3](1, 2, 3)",
        ),
        ("{{ [1] * 3 }}{{ 'ab' * 2 }}{{ 2 * 3 }}", "[1, 1, 1]abab6"),
        ("{{ items | join(', ') | replace('x', 'X') }}", "X, y, z"),
        ("{{ facts | join('-') }}", "a-b"),
        ("{{ items | join(d=';') }}", "x;y;z"),
        ("{{ '%05.1f|%s' | format(2.25, 'a') }}", "002.2|a"),
        ("{{ '{:>3}|{}'.format(1, 'a') }}", "  1|a"),
        ("{{ 'a\nb' | indent(2, first=true) }}", "  a\n  b"),
        (
            "{{ items | batch(2, '-') | list }}",
            "[['x', 'y'], ['z', '-']]",
        ),
        (
            "{{ 'a b'.split() }}{{ 'a,b' | split(',') }}",
            "['a', 'b']['a', 'b']",
        ),
        (
            "{{ items[1:] }}{{ items | reverse | list }}",
            "['y', 'z']['z', 'y', 'x']",
        ),
        (
            "{% for k, v in facts | items %}{{ k }}{% if not loop.last %},{% endif %}{% endfor %}",
            "a,b",
        ),
        (
            "{% for a in [1, [2, [3]]] recursive %}{% if a is iterable %}({{ loop(a) }}){% else %}{{ a }}{% endif %}{% endfor %}",
            "1(2(3))",
        ),
        (
            "{{ topic if topic == 'tides' else 'no' }}{{ 1 < 2 < 3 }}",
            "tidesTrue",
        ),
        (
            "{% filter upper %}{% for i in items %}a{{ i }}{% endfor %}{% endfilter %}",
            "AXAYAZ",
        ),
        (
            "{% for i in items if i != 'y' %}{{ i }}{% else %}none{% endfor %}",
            "xz",
        ),
        ("{% for i in [] %}{{ i }}{% else %}none{% endfor %}", "none"),
        (
            "{{ nobody is defined }}{{ topic is defined and items }}",
            "False['x', 'y', 'z']",
        ),
    ] {
        assert_eq!(rendered(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn deep_templates_are_rejected_before_they_are_parsed() {
    let n = 20_000;
    for source in [
        format!("{{{{ {}1{} }}}}", "(".repeat(n), ")".repeat(n)),
        format!("{{{{ {}1{} }}}}", "[".repeat(n), "]".repeat(n)),
        format!("{{{{ {}1 }}}}", "not ".repeat(n)),
        format!("{{{{ {}1 }}}}", "-".repeat(n)),
        format!("{{{{ a{} }}}}", ".a".repeat(n)),
        format!("{{{{ a{} }}}}", "[0]".repeat(n)),
        format!("{{{{ a{} }}}}", "()".repeat(n)),
        format!("{{{{ a{} }}}}", " | upper".repeat(n)),
        format!("{{{{ a{} }}}}", " ~ a".repeat(n)),
        format!("{{{{ a{} }}}}", " ** a".repeat(n)),
        format!("{{{{ a{} }}}}", " and a".repeat(n)),
        format!("{{{{ a{} }}}}", " if a else a".repeat(n)),
        "{% if a %}".repeat(n) + &"{% endif %}".repeat(n),
        "{% for a in b %}".repeat(n) + &"{% endfor %}".repeat(n),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(n)),
    ] {
        let templates = Templates::new();
        let error = templates.check(&source).expect_err(&source[..40]);
        assert!(matches!(error.fault, Fault::Syntax(_)), "{error}");
        assert!(templates.render(&source, context! {}).is_err());
        let inside = source.trim_start_matches("{{ ").trim_end_matches(" }}");
        assert!(templates.check_condition(inside).is_err());
    }
    let wide = format!("{{{{ [{}] | length }}}}", "topic ~ '-', ".repeat(1000));
    assert_eq!(rendered(&wide).as_deref(), Ok("1000"));
    let long = "{{ topic }}{% if topic %}.{% elif items %}{% else %}{% endif %}".repeat(1000);
    assert!(rendered(&long).is_ok());
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
