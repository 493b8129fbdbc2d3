// Package size reads and prints byte counts the way people who run storage write
// them: 10G and 10GiB are 10 times 2 to the 30th, 10GB is decimal.
package size
