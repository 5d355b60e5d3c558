//! Numbered names: `report`, `report-2`, `report-3`.
//!
//! [`free_number`] searches a number, and [`create_numbered`] creates a session under the first
//! name that it finds. The store alone decides whether a name is taken; what is read before may be
//! outdated.

use std::borrow::Cow;
use std::collections::BTreeSet;

use segno_core::id::Name;
use segno_core::store::Error as StoreError;
use segno_engine::Env;

/// Finds a number that `attempt` does not refuse by returning `None`, and returns it with the result
/// of that attempt. The number before it is refused, or it is 1.
///
/// It doubles the number until one is free, and then bisects: if 1 to n are refused, it finds n + 1
/// in O(log n) attempts. If some of these became free again, the number need not be the smallest
/// that is free. An attempt must have no side effect, also when it succeeds.
pub(crate) async fn free_number<T, E, F>(mut attempt: impl FnMut(u32) -> F) -> Result<(u32, T), E>
where
    F: Future<Output = Result<Option<T>, E>>,
{
    let (mut refused, mut number) = (0, 1);
    let mut found = loop {
        if let Some(found) = attempt(number).await? {
            break found;
        }
        (refused, number) = (number, number.saturating_mul(2));
    };
    while number - refused > 1 {
        let middle = refused + (number - refused) / 2;
        match attempt(middle).await? {
            Some(earlier) => (number, found) = (middle, earlier),
            None => refused = middle,
        }
    }
    Ok((number, found))
}

/// Refuses a name that contains a secret: names are stored, shown and sent to remotes (P12).
pub(crate) fn check(env: &Env, name: &Name) -> Result<(), StoreError> {
    match env.redactor.redact(name.as_str()) {
        Cow::Borrowed(_) => Ok(()),
        Cow::Owned(_) => Err(StoreError::SecretName),
    }
}

/// A name made of text that can contain secrets.
pub(crate) fn derived(env: &Env, text: &str) -> Name {
    let name = Name::sanitized(&env.redactor.redact_name(text));
    // What remains may still look like one, next to a word such as `password`.
    match check(env, &name) {
        Ok(()) => name,
        Err(_) => Name::sanitized(""),
    }
}

/// Creates something under a free name of the family, and returns both. Tries `first`, and after
/// each refusal a name that no session had a moment ago. `create` returns `None` if the name is
/// taken.
///
/// A second refusal needs another process that took the name meanwhile, or a damaged session, whose
/// name cannot be read. No name is tried twice.
pub(crate) async fn create_numbered<T, E, F>(
    env: &Env,
    family: &Name,
    first: Name,
    mut create: impl FnMut(Name) -> F,
) -> Result<(Name, T), E>
where
    E: From<StoreError>,
    F: Future<Output = Result<Option<T>, E>>,
{
    check(env, &first)?;
    let (mut name, mut refused) = (first, BTreeSet::new());
    loop {
        if let Some(created) = create(name.clone()).await? {
            return Ok((name, created));
        }
        refused.insert(name);
        let refused = &refused;
        let unused = |number| async move {
            let name = family.numbered(number);
            let is_free = !refused.contains(&name) && !is_taken(env, &name).await?;
            Ok::<_, E>(is_free.then_some(name))
        };
        (_, name) = free_number(unused).await?;
    }
}

/// Whether a session uses a name.
pub(crate) async fn is_taken(env: &Env, name: &Name) -> Result<bool, StoreError> {
    Ok(env.store.find_named(name.clone()).await?.is_some())
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    /// The attempts of a search where the first `taken` numbers are refused.
    fn attempts(taken: u32) -> Vec<u32> {
        let mut attempts = Vec::new();
        let searched = free_number(|number| {
            attempts.push(number);
            ready(Ok::<_, StoreError>((number > taken).then_some(number * 10)))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let found = runtime.unwrap().block_on(searched).unwrap();
        assert_eq!(found, (taken + 1, (taken + 1) * 10));
        attempts
    }

    #[test]
    fn free_number_needs_few_attempts() {
        assert_eq!(attempts(0), [1]);
        assert_eq!(attempts(1), [1, 2]);
        assert_eq!(attempts(2), [1, 2, 4, 3]);
        let doubled = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
        let bisected = [1536, 1280, 1152, 1216, 1184, 1200, 1208, 1212, 1214, 1215];
        assert_eq!(attempts(1214), [&doubled[..], &bisected[..]].concat());
    }
}
