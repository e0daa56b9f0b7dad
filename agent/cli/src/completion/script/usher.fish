# Completes `usher` in fish. The program itself computes the candidates.
function __usher_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (command $words[1] __complete -- $words[2..-1] 2>/dev/null)
    if test "$lines[1]" = :files
        __fish_complete_path (commandline -ct)
    else
        string join \n -- $lines
    end
end
complete -c usher -f -a '(__usher_complete)'
