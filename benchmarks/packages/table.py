"""The functions, as users call them: an expression in the arrays of `pool`, or a layer and the arrays that it is
applied to."""

TABLE = """
# optax: losses
optax.squared_error(x, y)
optax.l2_loss(x, y)
optax.huber_loss(x, y)
optax.log_cosh(x, y)
optax.cosine_similarity(x, y)
optax.cosine_distance(x, y)
optax.sigmoid_binary_cross_entropy(x, onehot)
optax.hinge_loss(v, signs)
optax.losses.perceptron_loss(v, signs)
optax.losses.sparsemax_loss(v, bits)
optax.softmax_cross_entropy(x, onehot)
optax.softmax_cross_entropy_with_integer_labels(x, labels)
optax.safe_softmax_cross_entropy(x, simplex)
optax.losses.poly_loss_cross_entropy(x, onehot)
optax.kl_divergence(jax.nn.log_softmax(x), simplex)
optax.losses.kl_divergence_with_log_targets(jax.nn.log_softmax(x), jax.nn.log_softmax(y))
optax.convex_kl_divergence(jax.nn.log_softmax(x), simplex)
optax.generalized_kl_divergence(jax.nn.log_softmax(x), simplex)
optax.losses.multiclass_hinge_loss(x, labels)
optax.losses.multiclass_perceptron_loss(x, labels)
optax.losses.multiclass_sparsemax_loss(x, labels)
optax.losses.triplet_margin_loss(x, y, z)
optax.losses.dice_loss(x, onehot)
optax.losses.binary_dice_loss(x, onehot)
optax.losses.multiclass_generalized_dice_loss(x, onehot)
optax.sigmoid_focal_loss(x, onehot)
optax.losses.ranking_softmax_loss(x, small)
optax.ntxent(x, labels)
optax.smooth_labels(simplex, 0.1)
optax.safe_norm(x, 1e-6)
optax.ctc_loss(x[None], jnp.zeros((1, n)), labels[None, :4], jnp.zeros((1, 4)))
optax.global_norm([x, y, v])
optax.projections.projection_simplex(v)
optax.projections.projection_l1_ball(v)
optax.projections.projection_l2_ball(v)
optax.projections.projection_linf_ball(v)
optax.projections.projection_non_negative(v)
optax.projections.projection_hyperplane(v, w, 1.0)
optax.projections.projection_halfspace(v, w, 1.0)
# equinox: layers
eqx.nn.Linear(n, 32, key=key) | v
jax.vmap(eqx.nn.Linear(16, 32, key=key))(x)
eqx.nn.MLP(n, 4, 32, 2, key=key) | v
eqx.nn.Conv1d(4, 8, 5, key=key) | signal
eqx.nn.Conv1d(4, 8, 5, stride=4, key=key) | signal
eqx.nn.Conv1d(4, 4, 5, groups=4, key=key) | signal
eqx.nn.Conv1d(4, 8, 3, dilation=8, key=key) | signal
eqx.nn.Conv2d(4, 8, 3, key=key) | img
eqx.nn.Conv2d(4, 8, 3, stride=2, key=key) | img
eqx.nn.Conv3d(4, 4, 3, key=key) | volume
eqx.nn.ConvTranspose1d(4, 8, 5, key=key) | signal
eqx.nn.ConvTranspose1d(4, 8, 8, stride=8, key=key) | signal
eqx.nn.ConvTranspose2d(4, 8, 4, stride=4, key=key) | img
eqx.nn.AvgPool1d(4, 4) | signal
eqx.nn.AvgPool2d(2, 2) | img
eqx.nn.MaxPool1d(4, 4) | signal
eqx.nn.MaxPool2d(2, 2) | img
eqx.nn.AdaptiveAvgPool1d(8) | signal
eqx.nn.AdaptiveMaxPool1d(8) | signal
eqx.nn.LayerNorm(n) | v
eqx.nn.RMSNorm(n) | v
eqx.nn.GroupNorm(2, 4) | img
eqx.nn.GRUCell(n, 16, key=key) | v means
eqx.nn.LSTMCell(n, 16, key=key) | v state
eqx.nn.MultiheadAttention(2, 16, key=key) | x y z
jax.vmap(eqx.nn.Embedding(16, n, key=key))(labels) * v
eqx.nn.RotaryPositionalEmbedding(16) | x
eqx.nn.PReLU() | x
eqx.nn.WeightNorm(eqx.nn.Linear(n, 32, key=key)) | v
eqx.nn.Sequential([eqx.nn.Linear(n, 32, key=key), eqx.nn.Lambda(jax.nn.gelu), eqx.nn.Linear(32, 8, key=key)]) | v
# flax: linen layers
linen.Dense(32) | x
linen.DenseGeneral((4, 8)) | x
linen.Einsum((16, 4, 8), "nd,dhk->nhk") | x
linen.Embed(16, n) | labels
linen.Conv(8, (5,)) | seqs
linen.Conv(8, (5,), strides=4) | seqs
linen.Conv(8, (5,), kernel_dilation=8) | seqs
linen.Conv(8, (5,), feature_group_count=8) | seqs
linen.Conv(8, (5,), input_dilation=4, padding=((4, 4),)) | seqs
linen.Conv(8, (3, 3)) | batch
linen.Conv(8, (5,), padding="CAUSAL") | seqs
linen.Conv(8, (5,), padding="CIRCULAR") | seqs
linen.ConvLocal(8, (5,)) | seqs
linen.ConvTranspose(8, (5,)) | seqs
linen.ConvTranspose(8, (8,), strides=(8,)) | seqs
linen.LayerNorm() | x
linen.RMSNorm() | x
linen.GroupNorm(4) | x
linen.InstanceNorm() | batch
linen.BatchNorm(use_running_average=False) | x
linen.BatchNorm(use_running_average=True) | x
linen.WeightNorm(linen.Dense(32)) | x
linen.PReLU() | x
linen.RNN(linen.LSTMCell(8)) | seqs
linen.RNN(linen.OptimizedLSTMCell(8)) | seqs
linen.RNN(linen.GRUCell(8)) | seqs
linen.RNN(linen.MGUCell(8)) | seqs
linen.RNN(linen.SimpleCell(8)) | seqs
linen.Bidirectional(linen.RNN(linen.GRUCell(8)), linen.RNN(linen.GRUCell(8))) | seqs
linen.MultiHeadDotProductAttention(2) | seqs seqs
linen.SelfAttention(2) | seqs
linen.avg_pool(seqs, (4,), (4,))
linen.max_pool(seqs, (4,), (4,))
linen.pooling.min_pool(seqs, (4,), (4,))
linen.dot_product_attention(cube, cube, cube)
linen.combine_masks(linen.make_causal_mask(v), dtype=jnp.float32) * s
linen.dot_product_attention(x[:, None], y[:, None], z[:, None], mask=linen.make_causal_mask(v))
linen.glu(x)
linen.normalize(x)
# flax: nnx layers
nnx.Linear(16, 32, rngs=nnx.Rngs(0)) | x
nnx.LinearGeneral(16, (4, 8), rngs=nnx.Rngs(0)) | x
nnx.Einsum("nd,dhk->nhk", (16, 4, 8), rngs=nnx.Rngs(0)) | x
nnx.Embed(16, n, rngs=nnx.Rngs(0)) | labels
nnx.Conv(8, 8, (5,), rngs=nnx.Rngs(0)) | seqs
nnx.ConvTranspose(8, 8, (4,), strides=(4,), rngs=nnx.Rngs(0)) | seqs
nnx.LayerNorm(16, rngs=nnx.Rngs(0)) | x
nnx.RMSNorm(16, rngs=nnx.Rngs(0)) | x
nnx.GroupNorm(16, 4, rngs=nnx.Rngs(0)) | x
nnx.BatchNorm(16, use_running_average=True, rngs=nnx.Rngs(0)) | x
nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(0)) | seqs
nnx.LoRA(16, 4, 32, rngs=nnx.Rngs(0)) | x
# haiku: modules
hk.Linear(32) | x
hk.Bias() | x
hk.Embed(16, n) | labels
hk.Conv1D(8, 5) | seqs
hk.Conv1D(8, 5, stride=4) | seqs
hk.Conv1D(8, 3, rate=8) | seqs
hk.Conv2D(8, 3) | batch
hk.Conv1DTranspose(8, 8, stride=8) | seqs
hk.Conv2DTranspose(8, 4, stride=4) | batch
hk.DepthwiseConv1D(2, 5) | seqs
hk.DepthwiseConv2D(2, 3) | batch
hk.SeparableDepthwiseConv2D(2, 3) | batch
hk.LayerNorm(-1, True, True) | x
hk.RMSNorm(-1) | x
hk.GroupNorm(4) | x
hk.InstanceNorm(True, True) | batch
hk.nets.MLP([32, 32, 4]) | x
hk.AvgPool((4, 1), (4, 1), "VALID") | seqs
hk.MaxPool((4, 1), (4, 1), "VALID") | seqs
hk.MultiHeadAttention(2, 8, w_init_scale=1.0) | x y z
lambda s: hk.dynamic_unroll(hk.LSTM(8), s, hk.LSTM(8).initial_state(4), time_major=False)[0] | seqs
lambda s: hk.dynamic_unroll(hk.GRU(8), s, hk.GRU(8).initial_state(4), time_major=False)[0] | seqs
lambda s: hk.dynamic_unroll(hk.VanillaRNN(8), s, hk.VanillaRNN(8).initial_state(4), time_major=False)[0] | seqs
# numpyro: log densities
npd.AsymmetricLaplace(v, a, b).log_prob(w)
npd.BernoulliLogits(v).log_prob(bits)
npd.BernoulliProbs(u).log_prob(bits)
npd.Beta(a, b).log_prob(u)
npd.BetaBinomial(a, b, 20).log_prob(k)
npd.BetaProportion(u, a).log_prob(u)
npd.BinomialLogits(v, 20).log_prob(k)
npd.BinomialProbs(u, 20).log_prob(k)
npd.CategoricalLogits(x).log_prob(labels)
npd.CategoricalProbs(simplex).log_prob(labels)
npd.Cauchy(v, a).log_prob(w)
npd.Chi2(a).log_prob(b)
npd.Dirichlet(jnp.exp(x)).log_prob(simplex)
npd.DirichletMultinomial(jnp.exp(x), 16).log_prob(onehot)
npd.Exponential(a).log_prob(b)
npd.Gamma(a, b).log_prob(c)
npd.GammaPoisson(a, b).log_prob(k)
npd.GaussianRandomWalk(t, n).log_prob(v)
npd.GeometricLogits(v).log_prob(k)
npd.GeometricProbs(u).log_prob(k)
npd.Gompertz(a, b).log_prob(c)
npd.Gumbel(v, a).log_prob(w)
npd.HalfCauchy(a).log_prob(b)
npd.HalfNormal(a).log_prob(b)
npd.InverseGamma(a, b).log_prob(c)
npd.Kumaraswamy(a, b).log_prob(u)
npd.Laplace(v, a).log_prob(w)
npd.Levy(v, a).log_prob(v + b)
npd.LKJCholesky(16, t).log_prob(jnp.linalg.cholesky(jnp.corrcoef(x.T)))
npd.LogNormal(v, a).log_prob(b)
npd.Logistic(v, a).log_prob(w)
npd.LogUniform(a / 4, c).log_prob(b)
npd.LowRankMultivariateNormal(v, tall, a).log_prob(w)
npd.MatrixNormal(x, tril, jnp.eye(16)).log_prob(y)
npd.MixtureSameFamily(npd.Categorical(probs), npd.Normal(means, scales)).log_prob(v)
npd.MultinomialLogits(x, 16).log_prob(onehot)
npd.MultinomialProbs(simplex, 16).log_prob(onehot)
npd.MultivariateNormal(v, scale_tril=tril).log_prob(w)
npd.MultivariateNormal(v, covariance_matrix=spd).log_prob(w)
npd.MultivariateStudentT(t, v, tril).log_prob(w)
npd.NegativeBinomial2(a, b).log_prob(k)
npd.NegativeBinomialLogits(a, v).log_prob(k)
npd.Normal(v, a).log_prob(w)
npd.OrderedLogistic(v, bins[1:]).log_prob(k)
npd.Pareto(a, b).log_prob(c)
npd.Poisson(a).log_prob(k)
npd.RelaxedBernoulliLogits(t, v).log_prob(u)
npd.SoftLaplace(v, a).log_prob(w)
npd.StudentT(c, v, a).log_prob(w)
npd.TruncatedNormal(v, a, low=-5.0).log_prob(w)
npd.TruncatedCauchy(v, a, low=-5.0).log_prob(w)
npd.Uniform(v - 9, v + 9).log_prob(w)
npd.VonMises(v, a).log_prob(u)
npd.Weibull(a, b).log_prob(c)
npd.ZeroInflatedPoisson(u, a).log_prob(k)
npd.ZeroInflatedNegativeBinomial2(a, b, gate=u).log_prob(k)
npd.HurdlePoisson(u, a).log_prob(k)
npd.ZeroSumNormal(t, (n,)).log_prob(v - v.mean())
npd.CirculantNormal(v, covariance_row=jnp.exp(-jnp.minimum(jnp.arange(n), n - jnp.arange(n)) / a[0])).log_prob(w)
npd.EulerMaruyama(jnp.arange(n) * 0.1, lambda q, _: (-q, 0.5 + 0 * q), npd.Normal(t, 1.0)).log_prob(v)
npd.Independent(npd.Normal(x, jnp.exp(y)), 1).log_prob(z)
npd.FoldedDistribution(npd.Normal(v, a)).log_prob(b)
npd.TransformedDistribution(npd.Normal(v, a), npd.transforms.SigmoidTransform()).log_prob(u)
npd.transforms.StickBreakingTransform()(x)
npd.transforms.CorrCholeskyTransform()(v[:6])
npd.transforms.OrderedTransform()(x)
npd.transforms.LowerCholeskyTransform()(v[:15])
npd.transforms.RecursiveLinearTransform(jnp.eye(8) * t)(seq)
npd.kl.kl_divergence(npd.Normal(v, a), npd.Normal(w, b))
# distrax: densities and bijectors
distrax.Normal(v, a).log_prob(w)
distrax.Laplace(v, a).log_prob(w)
distrax.Gumbel(v, a).log_prob(w)
distrax.Logistic(v, a).log_prob(w)
distrax.Gamma(a, b).log_prob(c)
distrax.Beta(a, b).log_prob(u)
distrax.Dirichlet(jnp.exp(x)).log_prob(simplex)
distrax.Bernoulli(v).log_prob(bits)
distrax.Categorical(x).log_prob(labels)
distrax.Categorical(x).entropy()
distrax.OneHotCategorical(x).log_prob(onehot)
distrax.MultivariateNormalDiag(x, jnp.exp(y)).log_prob(z)
distrax.MultivariateNormalTri(v, tril).log_prob(w)
distrax.MultivariateNormalFullCovariance(v, spd).log_prob(w)
distrax.MultivariateNormalDiagPlusLowRank(v, a, tall).log_prob(w)
distrax.MixtureSameFamily(distrax.Categorical(probs=probs), distrax.Normal(means, scales)).log_prob(v)
distrax.LogStddevNormal(v, w).log_prob(r)
distrax.ClippedNormal(v, a, -1.0, 1.0).log_prob(u)
distrax.Uniform(v - 9, v + 9).log_prob(w)
distrax.VonMises(v, a).log_prob(u)
distrax.Quantized(distrax.Normal(v, a)).log_prob(jnp.round(w))
distrax.Tanh().inverse_and_log_det(u)
distrax.RationalQuadraticSpline(jnp.tile(jnp.linspace(-1.0, 1.0, 13), (n, 1)) * a[:, None], -3.0, 3.0).forward_and_log_det(u)
distrax.TriangularLinear(tril).forward_and_log_det(v)
distrax.DiagLinear(a).forward_and_log_det(v)
distrax.LowerUpperTriangularAffine(spd, v).forward_and_log_det(w)
distrax.HMM(distrax.Categorical(probs=start), distrax.Categorical(probs=chain), distrax.Normal(means, scales)).forward(v)
# tensorflow_probability: densities and bijectors
tfd.BetaQuotient(a, b, a, c).log_prob(u)
tfd.ContinuousBernoulli(v).log_prob(u)
tfd.DirichletMultinomial(16.0, jnp.exp(x)).log_prob(onehot)
tfd.ExponentiallyModifiedGaussian(v, a, b).log_prob(w)
tfd.GeneralizedNormal(v, a, c).log_prob(w)
tfd.GeneralizedPareto(v, a, b).log_prob(v + c)
tfd.HiddenMarkovModel(tfd.Categorical(probs=start), tfd.Categorical(probs=chain), tfd.Normal(means, scales), num_steps=n).log_prob(v)
tfd.InverseGaussian(a, b).log_prob(c)
tfd.JohnsonSU(v, a, w, b).log_prob(r)
tfd.LinearGaussianStateSpaceModel(num_timesteps=n, transition_matrix=jnp.eye(2) * t, transition_noise=tfd.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)), observation_matrix=jnp.ones((1, 2)), observation_noise=tfd.MultivariateNormalDiag(jnp.zeros(1), jnp.ones(1)), initial_state_prior=tfd.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))).log_prob(v[:, None])
tfd.LogLogistic(v, a).log_prob(b)
tfd.Moyal(v, a).log_prob(w)
tfd.NormalInverseGaussian(v, a, u / 4, b).log_prob(w)
tfd.PlackettLuce(jnp.exp(x)).log_prob(jnp.argsort(x, 1))
tfd.Skellam(a, b).log_prob(jnp.float32(k))
tfd.SinhArcsinh(v, a, w / 9, b).log_prob(r)
tfd.StoppingRatioLogistic(bins[1:], v).log_prob(k)
tfd.Triangular(v - 4, v + 4, v).log_prob(v + u)
tfd.TwoPieceNormal(v, a, b).log_prob(w)
tfd.WishartTriL(float(n + 2), tril).log_prob(spd)
tfd.ZeroInflatedNegativeBinomial(total_count=a, logits=v, inflated_loc_logits=w).log_prob(k * 1.0)
tfd.MarkovChain(tfd.Normal(0.0, 1.0), lambda _, q: tfd.Normal(t * q, 1.0), num_steps=n).log_prob(v)
tfd.GaussianProcess(tfk.ExponentiatedQuadratic(a[0], b[0]), index_points=x).log_prob(v)
tfb.Softplus().forward(x)
tfb.FillTriangular().forward(v[:15])
tfb.FillScaleTriL().forward(v[:15])
tfb.Cumsum().forward(x)
tfb.Ascending().forward(x)
tfb.IteratedSigmoidCentered().forward(x)
tfb.CorrelationCholesky().forward(v[:6])
tfb.ScaleMatvecTriL(tril).forward(v)
tfb.ScaleMatvecDiag(a).forward(v)
# jax-md: potentials
energy.simple_spring_bond(space.free()[0], jnp.stack([jnp.arange(n - 1), jnp.arange(1, n)], 1))(X)
energy.soft_sphere_pair(space.free()[0])(X)
energy.lennard_jones_pair(space.free()[0])(X)
energy.lennard_jones_pair(space.periodic(9.0)[0])(X)
energy.morse_pair(space.free()[0])(X)
energy.gupta_gold55(space.free()[0])(X)
energy.stillinger_weber(space.free()[0])(X[:32])
energy.bks_silica_pair(space.free()[0], np.arange(n) % 2)(X * 2)
energy.coulomb_direct_pair(space.free()[0], jnp.ones(n))(X)
# dynamax: hidden Markov and state-space models
hmm.hmm_filter(start, chain, x).marginal_loglik
hmm.hmm_smoother(start, chain, x).smoothed_probs
hmm.hmm_two_filter_smoother(start, chain, x).smoothed_probs
hmm.parallel_hmm_filter(start, chain, x).marginal_loglik
hmm.hmm_backward_filter(chain, x)[0]
hmm.GaussianHMM(4, 8).marginal_log_prob(hmm.GaussianHMM(4, 8).initialize(key)[0], seq)
hmm.DiagonalGaussianHMM(4, 8).marginal_log_prob(hmm.DiagonalGaussianHMM(4, 8).initialize(key)[0], seq)
hmm.LinearAutoregressiveHMM(4, 8).marginal_log_prob(hmm.LinearAutoregressiveHMM(4, 8).initialize(key)[0], seq, hmm.LinearAutoregressiveHMM(4, 8).compute_inputs(seq))
ssm.LinearGaussianSSM(4, 8).marginal_log_prob(ssm.LinearGaussianSSM(4, 8).initialize(key)[0], seq)
# jaxopt: objectives, projections
jaxopt.objective.least_squares(means, (x, v))
jaxopt.objective.ridge_regression(means, t, (x, v))
jaxopt.objective.binary_logreg(means, (x, bits))
jaxopt.objective.multiclass_logreg(chain, (x, labels))
jaxopt.objective.multiclass_logreg_with_intercept((chain, means), (x, labels))
jaxopt.objective.l2_multiclass_logreg(chain, t, (x, labels))
jaxopt.objective.multiclass_linear_svm_dual(simplex, t, (y, onehot))
jax.vmap(jaxopt.loss.huber_loss)(v, w)
jax.vmap(jaxopt.loss.binary_logistic_loss)(bits, v)
jax.vmap(jaxopt.loss.binary_hinge_loss)(bits, v)
jax.vmap(jaxopt.loss.binary_sparsemax_loss)(bits, v)
jax.vmap(jaxopt.loss.multiclass_logistic_loss)(labels, x)
jax.vmap(jaxopt.loss.multiclass_hinge_loss)(labels, x)
jax.vmap(jaxopt.loss.multiclass_sparsemax_loss)(labels, x)
jaxopt.projection.projection_simplex(v)
jaxopt.projection.projection_l1_ball(v, 1.0)
jaxopt.projection.projection_l2_ball(v, 1.0)
jaxopt.projection.projection_sparse_simplex(v, 8)
jaxopt.projection.kl_projection_transport(x[:16], (probs, probs))
jaxopt.prox.prox_lasso(v, 0.3)
jaxopt.prox.prox_elastic_net(v, (0.3, 0.2))
jaxopt.prox.prox_group_lasso(v, 0.3)
# rlax: losses and returns of reinforcement learning
jax.vmap(rlax.td_learning)(v, w, u, r)
jax.vmap(rlax.sarsa)(x, labels, v, u, y, labels)
jax.vmap(rlax.expected_sarsa)(x, labels, v, u, y, simplex)
jax.vmap(rlax.q_learning)(x, labels, v, u, y)
jax.vmap(rlax.double_q_learning)(x, labels, v, u, y, z)
jax.vmap(rlax.persistent_q_learning, in_axes=(0, 0, 0, 0, 0, None))(x, labels, v, u, y, 0.5)
jax.vmap(rlax.qv_learning)(x, labels, v, u, w)
rlax.td_lambda(v, w, u, r, 0.9)
rlax.q_lambda(x, labels, v, u, y, 0.9)
rlax.sarsa_lambda(x, labels, v, u, y, labels, 0.9)
rlax.policy_gradient_loss(x, labels, v, u)
rlax.qpg_loss(x, y)
rlax.rm_loss(x, y)
rlax.rpg_loss(x, y)
rlax.entropy_loss(x, u)
rlax.clipped_surrogate_pg_loss(a, v, 0.2)
rlax.lambda_returns(v, u, w, 0.9)
rlax.discounted_returns(v, u, w)
rlax.n_step_bootstrapped_returns(v, u, w, 5)
rlax.truncated_generalized_advantage_estimation(v[1:], u[1:], 0.9, w)
rlax.vtrace(v, w, r, u, a, 0.9)
rlax.leaky_vtrace(v, w, r, u, a)
rlax.retrace(x[:-1], x[1:], labels[:-1], labels[1:], v[1:], u[1:], simplex[1:], u[1:], 0.9)
jax.vmap(rlax.categorical_td_learning, in_axes=(None, 0, 0, 0, None, 0))(bins, x, v, u, bins, y)
jax.vmap(rlax.quantile_regression_loss)(x, simplex, y)
rlax.categorical_l2_project(bins, probs, bins * t)
rlax.transform_to_2hot(v, -3.0, 3.0, 16)
rlax.signed_hyperbolic(v)
rlax.gaussian_diagonal().entropy(x, jnp.exp(y))
rlax.multivariate_normal_kl_divergence(x, jnp.exp(y), z, jnp.exp(x))
rlax.pixel_control_rewards(batch, 4)
# tinygp: kernels, Gaussian processes
tinygp.GaussianProcess(t * tinygp.kernels.ExpSquared(t2), x, diag=0.1).log_probability(v)
tinygp.GaussianProcess(t * tinygp.kernels.Matern32(t2), x, diag=0.1).log_probability(v)
tinygp.GaussianProcess(tinygp.kernels.quasisep.Matern32(t2), times, diag=0.1).log_probability(v)
tinygp.GaussianProcess(tinygp.kernels.quasisep.SHO(t, t2), times, diag=0.1).log_probability(v)
tinygp.kernels.RationalQuadratic(alpha=t)(x, y)
tinygp.kernels.Cosine(t2)(x, y)
tinygp.kernels.DotProduct()(x, y)
tinygp.kernels.Polynomial(order=t2)(jnp.abs(x), jnp.abs(y))
"""
