//! Enums whose variants have fixed words, used in files and on the command line.

/// Defines an enum whose variants have fixed words, used in files and on the command line.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The variant's word, in the journal and on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(word: &str) -> Result<Self, $crate::words::UnknownWord> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word).ok_or($crate::words::UnknownWord)
            }
        }
    };
}

pub(crate) use words;

/// The word is not one of the known words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;
