//! JSON as it must be wherever a signature counts: one text has one meaning, for every reader.
//!
//! Owns what is refused before a type is read: a text that is too long or too deep, is not UTF-8, has a key twice, or
//! goes on behind its value. Types that are read by [`read`] deny unknown members, and an object is never taken from
//! an array. Nothing here takes more than linear time, and no text makes it recurse deeper than [`DEEPEST`].

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

/// The maximum depth of arrays and objects in one another.
pub const DEEPEST: usize = 32;

/// The number of bytes that are kept of a message: a message may quote what somebody sent.
const LONGEST_MESSAGE: usize = 240;

/// The fault of a text, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError(String);

impl FormatError {
    /// Returns it with these words, cut where they are many, and without control characters.
    pub fn new(words: impl AsRef<str>) -> FormatError {
        let mut text = String::new();
        for c in words.as_ref().chars() {
            match crate::name::is_deceptive(c) {
                true => crate::name::escape_char(c, &mut text),
                false => text.push(c),
            }
            if text.len() > LONGEST_MESSAGE {
                text.push('…');
                break;
            }
        }
        FormatError(text)
    }

    /// Says of what it is: `lease: no member "aud"`.
    #[must_use]
    pub fn of(self, what: &str) -> FormatError {
        FormatError(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

/// Checks a text of at most `limit` bytes.
///
/// # Errors
/// It is too long or too deep, not UTF-8, not JSON, has a key twice (compared after unescaping), or goes on behind
/// its value.
pub fn check(text: &[u8], limit: usize) -> Result<(), FormatError> {
    if text.len() > limit {
        return Err(FormatError::new(format!(
            "{} bytes, more than {limit}",
            text.len()
        )));
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        FormatError::new(format!("not UTF-8 from byte {}", error.valid_up_to()))
    })?;
    let mut reader = serde_json::Deserializer::from_str(text);
    JsonChecker { depth: 0 }
        .deserialize(&mut reader)
        .map_err(|error| FormatError::new(error.to_string()))?;
    reader
        .end()
        .map_err(|error| FormatError::new(error.to_string()))
}

/// Reads an object of at most `limit` bytes, after [`check`].
///
/// # Errors
/// As [`check`], or it is no such object.
pub fn read<T: DeserializeOwned>(text: &[u8], limit: usize) -> Result<T, FormatError> {
    check(text, limit)?;
    let read: Result<ObjectOnly<T>, _> = serde_json::from_slice(text);
    read.map(|object| object.0)
        .map_err(|error| FormatError::new(error.to_string()))
}

/// Returns the SHA-256 of bytes, in lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(bytes))
}

/// Checks that a text is a SHA-256 as [`sha256`] writes it.
///
/// # Errors
/// It is not; `member` names it.
pub fn check_sha256(member: &str, text: &str) -> Result<(), FormatError> {
    let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    match text.len() == 64 && text.bytes().all(is_digit) {
        true => Ok(()),
        false => Err(FormatError::new(format!(
            "{member} is no SHA-256 in 64 lower-case hexadecimal digits"
        ))),
    }
}

/// Checks that a text is an id: 1 to 256 visible characters of ASCII (0x21 to 0x7e).
///
/// # Errors
/// It is not; `member` names it.
pub fn check_id(member: &str, text: &str) -> Result<(), FormatError> {
    match (1..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(FormatError::new(format!(
            "{member} is not 1 to 256 visible characters of ASCII"
        ))),
    }
}

/// Checks the version of a format: there is only 1.
///
/// # Errors
/// It is another.
pub fn check_version(version: u64) -> Result<(), FormatError> {
    match version {
        1 => Ok(()),
        other => Err(FormatError::new(format!("v is {other}, only 1 is known"))),
    }
}

/// A value of which nothing is kept.
struct JsonChecker {
    /// The number of arrays and objects that the value stands in.
    depth: usize,
}

impl JsonChecker {
    fn below<E: serde::de::Error>(&self) -> Result<usize, E> {
        match self.depth < DEEPEST {
            true => Ok(self.depth + 1),
            false => Err(E::custom(format!("deeper than {DEEPEST} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for JsonChecker {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonChecker {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let depth = self.below()?;
        while array.next_element_seed(JsonChecker { depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let depth = self.below()?;
        let mut keys = HashSet::new();
        while let Some(key) = object.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("key {key:?} stands twice")));
            }
            keys.insert(key);
            object.next_value_seed(JsonChecker { depth })?;
        }
        Ok(())
    }
}

/// A value that is read from an object only. A type with `derive` would also be read from an array of its members.
struct ObjectOnly<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ObjectOnly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = ObjectOnly<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ObjectOnly<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(ObjectOnly)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// For `deserialize_with`: a member that is an object.
///
/// # Errors
/// A member that is something else.
pub fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    ObjectOnly::deserialize(deserializer).map(|object| object.0)
}

/// For `deserialize_with`: a member that is an array of objects.
///
/// # Errors
/// A member that is something else.
pub fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let all = Vec::<ObjectOnly<T>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|object| object.0).collect())
}

/// For `deserialize_with` and `default`: an object that may be left out, but is not `null`.
///
/// # Errors
/// A member that is something else.
pub fn object_if_there<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    object(deserializer).map(Some)
}

/// For `deserialize_with` and `default`: a value that may be left out, but is not `null`.
///
/// # Errors
/// A member that is something else.
pub fn if_there<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// For `deserialize_with`: a value that may be `null`, but is not left out.
///
/// # Errors
/// A member that is something else.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        number: u64,
        #[serde(deserialize_with = "object")]
        inner: Inner,
        #[serde(default, deserialize_with = "if_there")]
        word: Option<String>,
        #[serde(deserialize_with = "nullable")]
        free: Option<String>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        flag: bool,
    }

    #[test]
    fn json_is_strict() {
        for text in [
            "{}",
            " {\"a\" : [1, -2, 3.5e3, true, false, null, \"\\u00e9\\n\"]}\r\n",
            "[]",
            "\"x\"",
            "0",
            r#"{"a":{"b":1},"b":{"a":1},"A":2}"#,
            r#"[{"a":1},{"a":2}]"#,
        ] {
            assert_eq!(check(text.as_bytes(), 1000), Ok(()), "{text}");
        }
        for (text, why) in [
            (&b""[..], "EOF"),
            (b"{} {}", "trailing"),
            (b"{}x", "trailing"),
            (b"\xef\xbb\xbf{}", "expected value"),
            (b"{\"a\":1,}", "trailing comma"),
            (b"{'a':1}", "key must be a string"),
            (b"[NaN]", "expected"),
            (b"[01]", "invalid number"),
            (b"[1e999]", "out of range"),
            (b"// c\n{}", "expected value"),
            (b"\"\xff\"", "not UTF-8 from byte 1"),
            (b"[\"\xc0\xaf\"]", "not UTF-8"),
            (br#""\ud800""#, "hex escape"),
            (b"\"a\nb\"", "control character"),
            (br#"{"a":1,"a":1}"#, "\"a\" stands twice"),
            (br#"{"a":1,"\u0061":2}"#, "\"a\" stands twice"),
            (br#"{"x":[{"":0,"b":{},"":1}]}"#, "\"\" stands twice"),
        ] {
            let told = check(text, 1000).unwrap_err().to_string();
            let text = String::from_utf8_lossy(text);
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn length_and_depth_are_limited_before_anything_else() {
        assert_eq!(check(b"[1]", 3), Ok(()));
        assert!(
            check(b"[1]", 2)
                .unwrap_err()
                .to_string()
                .contains("more than 2")
        );
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert_eq!(check(&nested(DEEPEST), 1 << 20), Ok(()));
        for depth in [DEEPEST + 1, 200, 10_000] {
            let told = check(&nested(depth), 1 << 20).unwrap_err().to_string();
            assert!(told.contains("deeper than 32"), "{depth}: {told}");
        }
        let mut objects = "{\"a\":".repeat(DEEPEST + 1);
        objects.push('1');
        objects.push_str(&"}".repeat(DEEPEST + 1));
        assert!(check(objects.as_bytes(), 1 << 20).is_err());
        // 100 MB are refused by their length, so not even a first byte is looked at.
        let began = std::time::Instant::now();
        assert!(check(&vec![b'['; 100_000_000], 65536).is_err());
        assert!(began.elapsed().as_secs() < 10);
    }

    #[test]
    fn many_keys_take_linear_time() {
        let members: Vec<String> = (0..100_000).map(|n| format!("\"{n}\":0")).collect();
        let text = format!("{{{}}}", members.join(","));
        let began = std::time::Instant::now();
        assert_eq!(check(text.as_bytes(), 1 << 22), Ok(()));
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn types_are_taken_from_objects_with_their_members_only() {
        let good = r#"{"number":1,"inner":{"flag":true},"word":"w","free":null}"#;
        assert_eq!(read::<Outer>(good.as_bytes(), 100).unwrap().number, 1);
        let without = r#"{"number":1,"inner":{"flag":true},"free":"f"}"#;
        assert_eq!(read::<Outer>(without.as_bytes(), 100).unwrap().word, None);
        for bad in [
            r#"[1,{"flag":true},"w",null]"#,
            r#"{"number":1,"inner":[true],"free":null}"#,
            r#"{"number":1,"inner":{"flag":true}}"#,
            r#"{"number":1,"inner":{"flag":true},"free":null,"word":null}"#,
            r#"{"number":1,"inner":{"flag":true,"more":1},"free":null}"#,
            r#"{"number":1,"inner":{"flag":true},"free":null,"more":1}"#,
            r#"{"number":1,"inner":{},"free":null}"#,
            r#"{"number":1,"inner":null,"free":null}"#,
            r#"{"number":"1","inner":{"flag":true},"free":null}"#,
            r#"{"number":1.0,"inner":{"flag":true},"free":null}"#,
            r#"{"number":-1,"inner":{"flag":true},"free":null}"#,
            r#"{"number":18446744073709551616,"inner":{"flag":true},"free":null}"#,
            r#"{"number":1,"inner":{"flag":"true"},"free":null}"#,
            "null",
            "1",
        ] {
            assert!(read::<Outer>(bad.as_bytes(), 1000).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_are_short_and_steer_no_terminal() {
        let text = format!("{{\"{}\\u001b[2J\":1}}", "x".repeat(5000));
        let told = read::<Outer>(text.as_bytes(), 10_000)
            .unwrap_err()
            .to_string();
        assert!(told.len() < 400 && !told.contains('\x1b'), "{told}");
        assert_eq!(FormatError::new("a\x1bb").to_string(), "a\\x1bb");
    }

    #[test]
    fn ids_and_digests_have_one_alphabet() {
        for id in ["a", "task-1/2:3~!", &"x".repeat(256)] {
            assert_eq!(check_id("m", id), Ok(()));
        }
        for id in ["", " ", "a b", "a\n", "ä", "\u{7f}", &"x".repeat(257)] {
            assert!(check_id("m", id).is_err(), "{id:?}");
        }
        assert_eq!(check_sha256("m", &sha256(b"")), Ok(()));
        for digest in [&"A".repeat(64), &"a".repeat(63), &"g".repeat(64), ""] {
            assert!(check_sha256("m", digest).is_err(), "{digest}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(".*", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_serde_writes_is_strict(value in value()) {
            prop_assert_eq!(check(value.to_string().as_bytes(), 1 << 20), Ok(()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(&bytes, 1000);
        }
    }
}
