package process

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes text to a file that only the user of this process can read. Afterwards the file is complete,
// or unchanged.
func WriteFile(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // if it was not renamed
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
