# Completes `usher` in bash. The program itself computes the candidates.
_usher() {
    local -a lines=()
    mapfile -t lines < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=()
    if [[ ${lines[0]-} == :files ]]; then
        compopt -o default
        return
    fi
    COMPREPLY=("${lines[@]%%$'\t'*}")
}
complete -F _usher usher
