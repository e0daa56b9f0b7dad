//! The recipes that come with usher: the files in `recipes/`, in the format of
//! [`super::format`].

use std::sync::{Arc, LazyLock};

use super::Recipe;
use crate::settings::config;

/// One file of recipes.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Its name.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! files {
    ($($name:literal),*) => {
        [$(Builtin { file: $name, text: include_str!(concat!("../../recipes/", $name)) }),*]
    };
}

/// In the order in which they are tried.
const FILES: [Builtin; 8] = files![
    "istio.yaml",
    "linkerd.yaml",
    "consul.yaml",
    "kuma.yaml",
    "other-meshes.yaml",
    "helpers.yaml",
    "logs.yaml",
    "envoy.yaml"
];

/// The built-in recipes, in the order in which they are tried.
pub fn builtin() -> Arc<[Recipe]> {
    static RECIPES: LazyLock<Arc<[Recipe]>> = LazyLock::new(|| {
        FILES
            .iter()
            .flat_map(|builtin| {
                // Part of the program, and read by a test.
                config::parse_recipes(builtin.file, builtin.text)
                    .unwrap_or_else(|error| unreachable!("{error}"))
            })
            .collect()
    });
    Arc::clone(&RECIPES)
}
