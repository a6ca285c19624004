"""The text of the standard library: programs that any text may call by name, and `tensorlang.lib` has for Python."""

TEXT = """
-- sums and means
total(x: [n]R) = sum i:n. x[i]
mean(x: [n]R) = (sum i:n. x[i]) / n
var(x: [n]R) = let c = (sum i:n. x[i]) / n in (sum i:n. (x[i] - c)^2) / n
norm(x: [n]R) = sqrt(sum i:n. x[i]^2)
prod(x: [n]R) = fold i:n with p = 1 . p * x[i]
cumprod(x: [n]R) = scan i:n with p = 1 . p * x[i]
prefix_sum(x: [n]R) = gen i:n. sum j:n. [j <= i] * x[j]

linspace(a: R, b: R) = gen i:n. a + (b - a) * (i / real(n - 1))

-- functions of numbers; where they branch, the derivative is that of the branch that is taken
silu(x: R) = x * sigmoid(x)
gelu(x: R) = 0.5 * x * erfc(-0.7071067811865476 * x)
elu(x: R) = if x > 0 then x else expm1(x)
leaky_relu(x: R, slope: R) = if x >= 0 then x else slope * x
huber(x: R, width: R) = if abs(x) <= width then 0.5 * x^2 else width * (abs(x) - 0.5 * width)
clip(x: R, low: R, high: R) = if x < low then low else if x > high then high else x
xlogy(x: R, y: R) = if x = 0 then 0 else x * log(y)

-- products
dot(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]
outer(x: [n]R, y: [m]R) = gen i:n, j:m. x[i] * y[j]
matvec(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]
matmul(A: [n][m]R, B: [m][p]R) = gen i:n, j:p. sum k:m. A[i, k] * B[k, j]
transposed(A: [n][m]R) = gen j:m, i:n. A[i, j]
identity() = gen i:n, j:n. [i = j]
trace(A: [n][n]R) = sum i:n. A[i, i]
diagonal(A: [n][n]R) = gen i:n. A[i, i]
diagonal_matrix(x: [n]R) = gen i:n, j:n. [i = j] * x[i]

-- distributions
logsumexp(x: [n]R) = [0 < n] * let c = max i:n. x[i] in c + log(sum i:n. exp(x[i] - c))
softmax(x: [n]R) =
  [0 < n] * let c = max i:n. x[i] in
  let e = gen i:n. exp(x[i] - c) in
  let s = sum i:n. e[i] in
  gen i:n. e[i] / s
cross_entropy(scores: [n][m]R, labels: [n]idx(m)) =
  sum i:n. [0 < m] * ((let c = max j:m. scores[i, j] in c + log(sum j:m. exp(scores[i, j] - c))) - scores[i, labels[i]])
layer_norm(x: [n]R, scale: [n]R, shift: [n]R, epsilon: R) =
  let c = (sum i:n. x[i]) / n in
  let d = gen i:n. x[i] - c in
  let r = 1 / sqrt((sum i:n. d[i]^2) / n + epsilon) in
  gen i:n. d[i] * r * scale[i] + shift[i]

-- indices that are data
one_hot(k: [p]idx(n)) = gen i:p, j:n. [k[i] = j]
embedding(table: [n][m]R, k: [p]idx(n)) = gen i:p, j:m. table[k[i], j]
segment_sum(x: [p]R, k: [p]idx(n)) = gen j:n. sum i:p. [k[i] = j] * x[i]

-- pairs
squared_distances(x: [n][d]R, y: [m][d]R) = gen i:n, j:m. sum k:d. (x[i, k] - y[j, k])^2
attention(q: [n][d]R, k: [m][d]R, v: [m][p]R) =
  let s = gen i:n, j:m. (sum l:d. q[i, l] * k[j, l]) / sqrt(d) in
  let e = gen i:n, j:m. exp(s[i, j] - max l:m. s[i, l]) in
  let t = gen i:n. sum j:m. e[i, j] in
  gen i:n, l:p. (sum j:m. e[i, j] * v[j, l]) / t[i]
"""
