// The compiler takes a function without a body, as in yield_linux.go, only in a package
// that has an assembly file.
