# Count the words of a text.
echo "$(wc -w <"$1" | tr -d ' ') words"
