package addr

// Mark is the value of IFA_PROTO that identifies addresses of PureLB in the kernel (Linux
// 5.18 and later). It is an arbitrary number above those that the kernel uses itself (1 to
// 3).
const Mark = 80
