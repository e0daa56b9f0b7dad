# Completes `usher` in Nushell. The program itself computes the candidates. The completer that was configured before
# still completes other programs.
let usher_others = $env.config.completions.external.completer?
let usher_completer = {|spans|
    let lines = (^$spans.0 __complete -- ...($spans | skip 1) | lines)
    # With null, Nushell completes files.
    if ($lines | first 1) == [":files"] { null } else {
        $lines | each {|line|
            let parts = ($line | split row -n 2 "\t")
            { value: $parts.0, description: ($parts | get -i 1 | default "") }
        }
    }
}
$env.config.completions.external.enable = true
$env.config.completions.external.completer = {|spans|
    if ($spans.0 | path basename) == "usher" { do $usher_completer $spans } else if $usher_others != null { do $usher_others $spans }
}
